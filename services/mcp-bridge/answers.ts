/** Answers of the bridge: JSON, refusals as `{error}`, and streams. */
import { bearerChallenge } from '../authentication/challenge.ts'
import { HttpError } from '../http/errors.ts'
import type { HeaderList } from '../http/headers.ts'
import type { HttpResponse } from '../http/message.ts'
import { type EventStream, streamHeaders } from '../mcp-protocol/event-stream.ts'
import { BridgeRefusal } from './errors.ts'

export const json = (status: number, value: unknown, headers: HeaderList = []): HttpResponse => ({
  status,
  headers: [['Content-Type', 'application/json'], ...headers],
  body: JSON.stringify(value),
})

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
  return json(403, { error: `this takes the scope ${scope}` }, [
    bearerChallenge({ error: 'insufficient_scope', scope, resource_metadata: metadata }),
  ])
}

/** @returns undefined where it is no refusal, but a fault of the bridge */
export function renderRefusal(error: unknown, metadata: string | undefined): HttpResponse | undefined {
  if (error instanceof HttpError) {
    return error.fault.kind === 'body too large'
      ? json(413, { error: `the body must not be larger than ${error.fault.maximumBytes} bytes` })
      : json(503, { error: 'too many large requests are under way; try again later' })
  }
  if (!(error instanceof BridgeRefusal)) return undefined
  const { refusal } = error
  const headers: HeaderList = refusal.status === 401 ? [challenge(refusal.isMissing, metadata)] : []
  return json(refusal.status, { error: error.message }, headers)
}
