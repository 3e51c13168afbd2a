/** Text that people read in lists, consoles and logs: what they see of it is what is stored. */
import type { z } from 'zod'

/** Without control characters, line and paragraph separators, and what turns the direction in which the text around it is read. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to refuse
const plain = /^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/

/** For what comes in only: what is stored from before stays, and is given out as it is. */
export const plainText = (text: z.ZodString): z.ZodString =>
  text.regex(plain, 'must hold no control characters and no bidirectional overrides')
