/** Prompts for users, with their arguments. */
import type { CallContext, Outcome } from './call.ts'
import type { Content, Icon } from './content.ts'

export type PromptDefinition = {
  readonly name: string
  readonly title?: string
  readonly description: string
  readonly arguments?: readonly { readonly name: string; readonly description?: string; readonly required?: boolean }[]
  readonly icons?: readonly Icon[]
}

type PromptMessage = { readonly role: 'user' | 'assistant'; readonly content: Content }
export type PromptResult = { readonly description?: string; readonly messages: readonly PromptMessage[] }

export type Prompt = {
  readonly definition: PromptDefinition
  /** The core has checked that all required arguments are present. @throws CoreError */
  get(args: { readonly [name: string]: string }, context: CallContext): Promise<Outcome<PromptResult>>
  complete?(
    argument: string,
    value: string,
    chosen: { readonly [argument: string]: string },
    context: CallContext,
  ): Promise<readonly string[]>
}
