/** A tool: its definition and its implementation. */

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

/**
 * With `structuredContent`, `content` has the same data: clients show a model one of them. An error is in `content`.
 */
export type ToolResult = {
  readonly content: readonly Content[]
  readonly structuredContent?: JsonObject
  readonly isError?: true
}

export type Tool = {
  /** The name is fixed; the rest can change with the settings. */
  readonly definition: ToolDefinition
  /** Callable, but not listed. */
  readonly isHidden?: true
  /** Callable without a token, for example to get one. */
  readonly isOpen?: true
  /** Whether it may or must run as a task of the client; undefined: neither. */
  readonly task?: 'optional' | 'required'
  /** Whether a caller has it; undefined: every caller. */
  isFor?(caller: Caller): boolean
  /** The scope that a call with these arguments requires. */
  scopeOf(args: JsonObject): Scope
  /** @throws ArgumentsError, CoreError; the abort reason of `context.signal` */
  call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>>
}

/** A failure of a tool, as text for a model. */
export const toolError = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }], isError: true },
})

export const toolText = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }] },
})
