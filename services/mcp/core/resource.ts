/** Resources with a fixed URI or with a URI template. */
import type { CallContext, Outcome } from './call.ts'
import type { Caller } from './caller.ts'
import type { Icon, ResourceContents } from './content.ts'

type ResourceFields = {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly mimeType?: string
  readonly icons?: readonly Icon[]
}

export type ResourceDefinition = ResourceFields & { readonly uri: string; readonly size?: number }
export type ResourceTemplate = ResourceFields & {
  /** A URI template (RFC 6570). */
  readonly uriTemplate: string
}

export type ReadResult = { readonly contents: readonly ResourceContents[] }

export type ResourceProvider = {
  list(caller: Caller): readonly ResourceDefinition[]
  templates(caller: Caller): readonly ResourceTemplate[]
  /** Returns undefined if this provider does not have the URI. @throws CoreError */
  read(uri: string, context: CallContext): Promise<Outcome<ReadResult>> | undefined
  /**
   * Returns the values of a template variable that begin with `value`. `chosen`: the values that the client sent for
   * other variables.
   */
  complete?(
    uriTemplate: string,
    variable: string,
    value: string,
    chosen: { readonly [variable: string]: string },
    context: CallContext,
  ): Promise<readonly string[]>
}
