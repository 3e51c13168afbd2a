/** How many tokens a message is expected to take, by the model family that counts. Each message costs a little by itself. */
import { expectedTokens } from '../../tokens/expected.ts'
import { wholeText } from './message.ts'
import type { Message, TokenCounterType } from './request.ts'

/** `share`: tokens of the family's tokenizers for one of o200k_base. */
const counters: Readonly<Record<TokenCounterType, { readonly share: number; readonly perMessage: number }>> = {
  generic: { share: 1, perMessage: 10 },
  openai: { share: 1, perMessage: 4 },
  anthropic: { share: 1.05, perMessage: 5 },
  ollama: { share: 0.9, perMessage: 3 },
}

export type TokenCounter = (message: Message) => number

export const createTokenCounter = (type: TokenCounterType): TokenCounter => {
  const { share, perMessage } = counters[type]
  return message => Math.ceil(expectedTokens(wholeText(message), 'usual') * share) + perMessage
}
