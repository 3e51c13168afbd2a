/** Creates the bridge's responses: JSON, errors as `{error}`, and event streams. */
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

/** Streams buffered events and all further events to a client, until the stream ends or the client disconnects. */
export const streamAnswer = (stream: EventStream, { after, isPrimed, signal }: Opening): HttpResponse => ({
  status: 200,
  headers: streamHeaders,
  body: undefined,
  stream: async out => {
    const detachStream = () => stream.removeReader(out)
    signal.addEventListener('abort', detachStream)
    await stream.attach(out, after, isPrimed)
    signal.removeEventListener('abort', detachStream)
  },
})

/** `metadata`: the URL of the metadata with which a client finds its authorization server. */
const challenge = (isMissing: boolean, metadata: string | undefined) =>
  bearerChallenge({
    ...(isMissing ? {} : { error: 'invalid_token', error_description: 'the token is invalid or has expired' }),
    ...(metadata === undefined ? {} : { resource_metadata: metadata, scope: 'mcp:read' }),
  })

export function insufficientScope(scopes: readonly string[], metadata: string | undefined): HttpResponse {
  const scope = scopes.join(' ')
  return jsonError(403, `the scope ${scope} is required`, [
    bearerChallenge({ error: 'insufficient_scope', scope, resource_metadata: metadata }),
  ])
}

/** Returns undefined if the error is not a refusal, but a bug or failure of the bridge. */
export function renderRefusal(error: unknown, metadata: string | undefined): HttpResponse | undefined {
  const ofBody = bodyRefusal(error)
  if (ofBody !== undefined) return jsonError(ofBody.status, ofBody.error, ofBody.headers)
  if (!(error instanceof BridgeRefusal)) return undefined
  const { refusal } = error
  const headers: HeaderList = refusal.status === 401 ? [challenge(refusal.isMissing, metadata)] : []
  return jsonError(refusal.status, error.message, headers)
}
