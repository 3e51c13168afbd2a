/** Estimates a passage's tokens: a tenth more than expected, so that passages rarely exceed the requested size. */
import { expectedTokens } from '../tokens/expected.ts'

export const estimateTokens = (text: string): number => Math.ceil(expectedTokens(text, 'usual') * 1.1)
