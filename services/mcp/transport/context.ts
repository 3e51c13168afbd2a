/** What a call is told of the request that makes it, the same in all revisions. */
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { metaOf, type RequestId, type ServerMessage } from '../../mcp-protocol/json-rpc.ts'
import { type LogLevel, logLevels } from '../../mcp-protocol/log-level.ts'
import type { Answers, CallContext, Progress } from '../core/call.ts'
import type { Caller } from '../core/caller.ts'

/** Who asks, and what of the way back there is. */
export type Asking = {
  readonly caller: Caller
  /** The client's; undefined over stdio. */
  readonly address: string | undefined
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** Sends a message that goes with the request, before its answer; undefined where there is no way. */
  readonly notify: ((message: ServerMessage) => void) | undefined
}

/** What a transport logs with: a part of what pino is. */
export type TransportLogger = {
  error(details: object, message: string): void
  warn(details: object, message: string): void
}

/** As W3C writes it; anything else is as if there were none. */
const traceparentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

const isProgressToken = (token: unknown): token is RequestId =>
  typeof token === 'number' || (typeof token === 'string' && token.length <= 1_024)

/** Progress only ever rises, and nothing is told after the answer. */
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
  readonly asking: Asking
  readonly params: JsonObject
  readonly abilities: CallContext['abilities']
  readonly answers: Answers | undefined
  /** The least severe that the client is told; undefined: none. */
  readonly logLevel: LogLevel | undefined
}

type RunningCall = { readonly context: CallContext; finish(): void }

export function beginCall({ asking, params, abilities, answers, logLevel }: CallFacts): RunningCall {
  const { caller, address, signal, notify } = asking
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
    abilities,
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
