/** Estimates a message's tokens for a model family. Each message also costs a small fixed number of tokens. */
import { expectedTokens } from '../../tokens/expected.ts'
import { textWithResults } from './message.ts'
import type { Message, TokenCounterType } from './request.ts'

/** `share`: tokens of the family's tokenizer per token of o200k_base. */
const counters: Readonly<Record<TokenCounterType, { readonly share: number; readonly perMessage: number }>> = {
  generic: { share: 1, perMessage: 10 },
  openai: { share: 1, perMessage: 4 },
  anthropic: { share: 1.05, perMessage: 5 },
  ollama: { share: 0.9, perMessage: 3 },
}

export type TokenCounter = (message: Message) => number

export const createTokenCounter = (type: TokenCounterType): TokenCounter => {
  const { share, perMessage } = counters[type]
  return message => Math.ceil(expectedTokens(textWithResults(message), 'usual') * share) + perMessage
}
