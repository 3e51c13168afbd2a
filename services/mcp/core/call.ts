/**
 * One call of a tool, a prompt or a resource, as it looks to what answers it: whoever asks, by whatever transport. What a call needs from
 * the user it asks for by its outcome, and is called again with the answer, on this process or another: nothing is kept here.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { LogLevel } from '../../mcp-protocol/log-level.ts'
import type { Caller } from './caller.ts'

export type Progress = { readonly progress: number; readonly total?: number; readonly message?: string }

/** What a client can be asked for by the server. */
export type Ability = 'elicitation-form' | 'elicitation-url' | 'sampling' | 'sampling-tools' | 'roots'

/** A request to the client, as MCP writes it. */
export type InputRequest = {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list'
  readonly params: JsonObject
}

/** What came of an earlier call that has asked for something. The transport has made sure that both are of this very call. */
export type Answers = {
  /** By the keys of what was asked for. Not checked: a client writes what it likes. */
  readonly responses: { readonly [key: string]: JsonObject }
  /** What the earlier call has asked to keep. */
  readonly state: JsonObject | undefined
}

export type CallContext = {
  readonly caller: Caller
  /** Aborted when nobody waits for the answer any more, or its time is up. */
  readonly signal: AbortSignal
  /** Names the request in log lines and in what is sent to Postgres. */
  readonly requestId: string
  /** The client's, after trusted proxies; undefined over stdio. */
  readonly address: string | undefined
  /** W3C trace context, where the client sent one. */
  readonly traceparent: string | undefined
  readonly abilities: ReadonlySet<Ability>
  /** Absent in the first call. */
  readonly answers: Answers | undefined
  /** Told to the client if it asked to be told. */
  progress(report: Progress): void
  log(level: LogLevel, data: JsonObject | string): void
}

/** `input-required`: the call is made again, with the answers to `requests` and with `state`, which no client can read or change. */
export type Outcome<Result> =
  | { readonly kind: 'result'; readonly result: Result }
  | {
      readonly kind: 'input-required'
      readonly requests: { readonly [key: string]: InputRequest }
      readonly state?: JsonObject
    }
