/** Text that people read in lists, consoles and logs. It must be displayed exactly as it is stored. */
import type { z } from 'zod'

/** Excludes control characters, line and paragraph separators, and characters that change the text direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to refuse
const plain = /^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/

/** For input only. Text that was stored earlier is returned unchanged. */
export const plainText = (text: z.ZodString): z.ZodString =>
  text.regex(plain, 'must not contain control characters or bidirectional overrides')
