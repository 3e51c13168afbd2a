/** Creates the context of a call from a request of any revision. */
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { metaOf, type RequestId, type ServerMessage } from '../../mcp-protocol/json-rpc.ts'
import { type LogLevel, logLevels } from '../../mcp-protocol/log-level.ts'
import type { Answers, CallContext, Progress } from '../core/call.ts'
import type { Caller } from '../core/caller.ts'

/** The caller of a request, and a function that sends messages to the caller's client. */
export type Requester = {
  readonly caller: Caller
  /** The client's address; undefined over stdio without a bridge. */
  readonly address: string | undefined
  /** Aborted when the client disconnects or cancels. */
  readonly signal: AbortSignal
  /**
   * Sends a message that belongs to the request, before the response. Undefined if the HTTP response cannot be a
   * stream. Also undefined for a legacy session over stdio: the session itself sends such messages.
   */
  readonly notify: ((message: ServerMessage) => void) | undefined
}

/** The logger of a transport: a part of pino's interface. */
export type TransportLogger = {
  error(details: object, message: string): void
  warn(details: object, message: string): void
}

/** The trace context in W3C format. Other values are ignored. */
const traceparentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

const isProgressToken = (token: unknown): token is RequestId =>
  typeof token === 'number' || (typeof token === 'string' && token.length <= 1_024)

/** Returns a function that sends progress reports. The function drops a report whose progress does not increase. */
function reporter(params: JsonObject, notify: (message: ServerMessage) => void): (report: Progress) => void {
  const { progressToken } = metaOf(params)
  if (!isProgressToken(progressToken)) return () => {}
  let last = Number.NEGATIVE_INFINITY
  return report => {
    if (!(report.progress > last)) return
    last = report.progress
    notify({ method: 'notifications/progress', params: { progressToken, ...report } })
  }
}

type CallFacts = {
  readonly requester: Requester
  readonly params: JsonObject
  readonly inputKinds: CallContext['inputKinds']
  readonly answers: Answers | undefined
  /** The lowest severity of log messages that the client receives; undefined: none. */
  readonly logLevel: LogLevel | undefined
}

type RunningCall = { readonly context: CallContext; finish(): void }

export function beginCall({ requester, params, inputKinds, answers, logLevel }: CallFacts): RunningCall {
  const { caller, address, signal, notify } = requester
  const { traceparent } = metaOf(params)
  let isOver = false
  const send = (message: ServerMessage) => {
    if (!isOver && !signal.aborted) notify?.(message)
  }
  const context: CallContext = {
    caller,
    address,
    signal,
    requestId: randomUUID(),
    traceparent: typeof traceparent === 'string' && traceparentPattern.test(traceparent) ? traceparent : undefined,
    inputKinds,
    answers,
    progress: notify === undefined ? () => {} : reporter(params, send),
    log: (level, data) => {
      if (logLevel === undefined || logLevels.indexOf(level) < logLevels.indexOf(logLevel)) return
      send({ method: 'notifications/message', params: { level, data } })
    },
  }
  return {
    context,
    finish: () => {
      isOver = true
    },
  }
}
