/**
 * One call of a tool, a prompt or a resource, in any transport. If a call needs input, its outcome requests the input.
 * The client or the transport then repeats the call with the answers. Another process can handle the repeated call, so
 * a call keeps no state in memory.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { LogLevel } from '../../mcp-protocol/log-level.ts'
import type { Caller } from './caller.ts'

export type Progress = { readonly progress: number; readonly total?: number; readonly message?: string }

/** What the server can request from a client. */
export type InputKind = 'elicitation-form' | 'elicitation-url' | 'sampling' | 'sampling-tools' | 'roots'

/** A request to the client, as MCP writes it. */
export type InputRequest = {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list'
  readonly params: JsonObject
}

/**
 * The client's answers to the requests of an earlier call. The transport has verified that the answers and the state
 * belong to this call.
 */
export type Answers = {
  /** Answers by the keys of their requests. Unchecked: a client can send anything. */
  readonly responses: { readonly [key: string]: JsonObject }
  /** The state from the outcome of the earlier call. */
  readonly state: JsonObject | undefined
}

export type CallContext = {
  readonly caller: Caller
  /** Aborted when the client disconnects or cancels, or the timeout expires. */
  readonly signal: AbortSignal
  /** Identifies the request in log lines and in statements sent to Postgres. */
  readonly requestId: string
  /**
   * The client's address. Over HTTP, the server reads it through trusted proxies. Over stdio, the bridge reports it;
   * undefined without a bridge.
   */
  readonly address: string | undefined
  /** The W3C trace context, if the client sent one. */
  readonly traceparent: string | undefined
  readonly inputKinds: ReadonlySet<InputKind>
  /** Undefined in the first call. */
  readonly answers: Answers | undefined
  /** Sends a progress report, if the client requested progress. */
  progress(report: Progress): void
  log(level: LogLevel, data: JsonObject | string): void
}

/**
 * `input-required`: the client or the transport must repeat the call with the answers to `requests` and with `state`.
 * No client can read or change `state`.
 */
export type Outcome<Result> =
  | { readonly kind: 'result'; readonly result: Result }
  | {
      readonly kind: 'input-required'
      readonly requests: { readonly [key: string]: InputRequest }
      readonly state?: JsonObject
    }
