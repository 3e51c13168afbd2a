/** Protocol errors of a call. If the tool itself fails, the call returns a result with `isError` instead. */
import type { JsonObject } from '../../mcp-protocol/json.ts'

export type CoreFault =
  | { readonly kind: 'unknown tool'; readonly name: string }
  | { readonly kind: 'unknown prompt'; readonly name: string }
  | { readonly kind: 'unknown resource'; readonly uri: string }
  | { readonly kind: 'invalid cursor' }
  | { readonly kind: 'invalid params'; readonly problem: string }
  /** The client has not declared a capability that the call requires. */
  | { readonly kind: 'missing capability'; readonly required: JsonObject }
  /** The OAuth token lacks a scope. */
  | { readonly kind: 'insufficient scope'; readonly scopes: readonly string[] }

export class CoreError extends Error {
  readonly fault: CoreFault

  constructor(fault: CoreFault) {
    super(fault.kind)
    this.name = 'CoreError'
    this.fault = fault
  }
}
