/** How many tokens a passage takes: a tenth more than expected, so that passages are rarely larger than the caller asks for. */
import { expectedTokens } from '../tokens/expected.ts'

export const estimateTokens = (text: string): number => Math.ceil(expectedTokens(text, 'usual') * 1.1)
