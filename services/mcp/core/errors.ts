/** What a call is refused with where that is the protocol's business. What a tool itself fails with is a result with `isError`. */
import type { JsonObject } from '../../mcp-protocol/json.ts'

export type CoreFault =
  | { readonly kind: 'unknown tool'; readonly name: string }
  | { readonly kind: 'unknown prompt'; readonly name: string }
  | { readonly kind: 'unknown resource'; readonly uri: string }
  | { readonly kind: 'invalid cursor' }
  | { readonly kind: 'invalid params'; readonly problem: string }
  /** The client has not said that it can do what the call takes. */
  | { readonly kind: 'missing ability'; readonly required: JsonObject }
  /** Of an OAuth token that is for less. */
  | { readonly kind: 'insufficient scope'; readonly scopes: readonly string[] }

export class CoreError extends Error {
  readonly fault: CoreFault

  constructor(fault: CoreFault) {
    super(fault.kind)
    this.name = 'CoreError'
    this.fault = fault
  }
}
