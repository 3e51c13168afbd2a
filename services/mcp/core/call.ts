/**
 * One call of a tool, a prompt or a resource, independent of caller and transport. If a call needs input from the user,
 * its outcome requests it, and the call is made again with the answer, on this process or another: no state is kept
 * here.
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

/** The answers to requests of an earlier call. The transport has verified that both belong to this call. */
export type Answers = {
  /** By the keys of the requests. Not checked: a client can send anything. */
  readonly responses: { readonly [key: string]: JsonObject }
  /** State that the earlier call asked to keep. */
  readonly state: JsonObject | undefined
}

export type CallContext = {
  readonly caller: Caller
  /** Aborted when the client disconnects or cancels, or the timeout expires. */
  readonly signal: AbortSignal
  /** Identifies the request in log lines and in statements sent to Postgres. */
  readonly requestId: string
  /** The client's address, after trusted proxies; undefined over stdio. */
  readonly address: string | undefined
  /** W3C trace context, if the client sent one. */
  readonly traceparent: string | undefined
  readonly inputKinds: ReadonlySet<InputKind>
  /** Undefined in the first call. */
  readonly answers: Answers | undefined
  /** Sent to the client if it requested progress. */
  progress(report: Progress): void
  log(level: LogLevel, data: JsonObject | string): void
}

/**
 * `input-required`: the call is made again, with the answers to `requests` and with `state`, which no client can read
 * or change.
 */
export type Outcome<Result> =
  | { readonly kind: 'result'; readonly result: Result }
  | {
      readonly kind: 'input-required'
      readonly requests: { readonly [key: string]: InputRequest }
      readonly state?: JsonObject
    }
