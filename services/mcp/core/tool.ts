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
 * If a result has `structuredContent`, `content` has the same data, because clients show a model only one of the two.
 * An error is in `content`.
 */
export type ToolResult = {
  readonly content: readonly Content[]
  readonly structuredContent?: JsonObject
  readonly isError?: true
}

export type Tool = {
  /** The name is fixed. Other fields can change with the settings. */
  readonly definition: ToolDefinition
  /** Lists omit the tool, but callers can call it. */
  readonly isHidden?: true
  /** Callers can call the tool without a token. An example is the login tool. */
  readonly isOpen?: true
  /** Whether a client may or must run the tool as a task; undefined: the tool cannot run as a task. */
  readonly task?: 'optional' | 'required'
  /** Whether a caller has the tool; undefined: every caller has it. */
  isFor?(caller: Caller): boolean
  /** The scope that a call with these arguments requires. */
  scopeOf(args: JsonObject): Scope
  /** @throws ArgumentsError, CoreError, or the abort reason of `context.signal` */
  call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>>
}

/** The result of a failed tool, as text for a model. */
export const toolError = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }], isError: true },
})

export const toolText = (text: string): { kind: 'result'; result: ToolResult } => ({
  kind: 'result',
  result: { content: [{ type: 'text', text }] },
})
