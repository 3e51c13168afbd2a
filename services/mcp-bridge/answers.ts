/** Answers of the bridge: JSON, refusals as `{error}`, and streams. */
import { bearerChallenge } from '../authentication/challenge.ts'
import type { HeaderList } from '../http/headers.ts'
import { bodyRefusal, jsonError } from '../http/json-answers.ts'
import type { HttpResponse } from '../http/message.ts'
import { type EventStream, streamHeaders } from '../mcp-protocol/event-stream.ts'
import { BridgeRefusal } from './errors.ts'

export const empty = (status: number, headers: HeaderList = []): HttpResponse => ({ status, headers, body: undefined })

export const withHeaders = (answer: HttpResponse, headers: HeaderList): HttpResponse =>
  headers.length === 0 ? answer : { ...answer, headers: [...answer.headers, ...headers] }

type Opening = { readonly after: number | undefined; readonly isPrimed: boolean; readonly signal: AbortSignal }

/** Gives a client what a stream holds and what comes, until it ends or the client goes. */
export const streamAnswer = (stream: EventStream, { after, isPrimed, signal }: Opening): HttpResponse => ({
  status: 200,
  headers: streamHeaders,
  body: undefined,
  stream: async out => {
    const leave = () => stream.leave(out)
    signal.addEventListener('abort', leave)
    await stream.attach(out, after, isPrimed)
    signal.removeEventListener('abort', leave)
  },
})

/** `metadata`: where a client learns how to get a token. */
const challenge = (isMissing: boolean, metadata: string | undefined) =>
  bearerChallenge({
    ...(isMissing ? {} : { error: 'invalid_token', error_description: 'the token is invalid or has expired' }),
    ...(metadata === undefined ? {} : { resource_metadata: metadata, scope: 'mcp:read' }),
  })

export function insufficientScope(scopes: readonly string[], metadata: string | undefined): HttpResponse {
  const scope = scopes.join(' ')
  return jsonError(403, `this takes the scope ${scope}`, [
    bearerChallenge({ error: 'insufficient_scope', scope, resource_metadata: metadata }),
  ])
}

/** @returns undefined where it is no refusal, but a fault of the bridge */
export function renderRefusal(error: unknown, metadata: string | undefined): HttpResponse | undefined {
  const ofBody = bodyRefusal(error)
  if (ofBody !== undefined) return jsonError(ofBody.status, ofBody.error, ofBody.headers)
  if (!(error instanceof BridgeRefusal)) return undefined
  const { refusal } = error
  const headers: HeaderList = refusal.status === 401 ? [challenge(refusal.isMissing, metadata)] : []
  return jsonError(refusal.status, error.message, headers)
}
