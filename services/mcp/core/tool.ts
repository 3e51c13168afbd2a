/** A tool: what is said of it, and what it does. */

import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import type { CallContext, Outcome } from './call.ts'
import type { Caller } from './caller.ts'
import type { Content, Icon } from './content.ts'

export type ToolDefinition = {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint?: boolean
    readonly idempotentHint?: boolean
    readonly openWorldHint?: boolean
  }
  readonly icons?: readonly Icon[]
  readonly _meta?: JsonObject
}

/** With `structuredContent`, `content` says the same: clients show a model one of them. An error stands in `content`. */
export type ToolResult = {
  readonly content: readonly Content[]
  readonly structuredContent?: JsonObject
  readonly isError?: true
}

export type Tool = {
  /** Its name stays; the rest may be another after the settings have changed. */
  readonly definition: ToolDefinition
  /** Called by those who know of it, and not listed. */
  readonly isHidden?: true
  /** Called without a token, such as to get one. */
  readonly isOpen?: true
  /** Whether it may go on as a task of the client's, or must; absent: neither. */
  readonly task?: 'optional' | 'required'
  /** Whether it is there for a caller; absent: for all. */
  isFor?(caller: Caller): boolean
  /** The scope that a call with these arguments takes. */
  scopeOf(args: JsonObject): Scope
  /** @throws ArgumentsError, CoreError; what `context.signal` is aborted with */
  call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>>
}

/** What a tool fails with, as a model reads it. */
export const toolError = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }], isError: true },
})

export const toolText = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }] },
})
