/**
 * The text of a JSON-RPC message, for the tool server and the bridge. The bytes must be UTF-8, and the server must be
 * able to return ids unchanged.
 */
import { isUtf8 } from 'node:buffer'

/** Returns undefined if the bytes are not UTF-8. Replacement characters would change the client's text. */
export const messageTextOf = (bytes: Buffer): string | undefined => (isUtf8(bytes) ? bytes.toString('utf8') : undefined)

export const notUtf8 = 'the message is not valid UTF-8'

/** Ids are short, because an id stays in memory while its request runs. */
const maximumIdLength = 1_024

export const idRule = `a string of at most ${maximumIdLength} characters, or an integer from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER} without fraction or exponent`

/** Refuses integers beyond 2^53 and fractions, because they could not be returned unchanged. */
export const isMessageId = (value: unknown): value is string | number =>
  typeof value === 'string' ? value.length <= maximumIdLength : Number.isSafeInteger(value)

/** Returns the problem of a progress token, which the server must be able to return like an id. */
export function progressTokenProblem(token: unknown): string | undefined {
  const isWrong = typeof token === 'number' && !isMessageId(token)
  return isWrong ? `params._meta.progressToken must be ${idRule}` : undefined
}

/** Matches a non-integer number behind "id", or an escaped letter of the key "id". Most messages have neither. */
const suspectId = /"id"[\t\n\r ]*:[\t\n\r ]*(?:-0|-?\d+[.eE])|\\u006[49]/
const brackets = /["{}[\]]/g
/** The length of "id" with each letter escaped. */
const longestIdKey = '"\\u0069\\u0064"'.length
const numberAfterKey = /[\t\n\r ]*:[\t\n\r ]*(-?\d[\d.eE+-]*)/y

/**
 * Returns the index after the JSON string that begins at `start`. A regular expression would overflow the stack at some
 * megabytes.
 */
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (text[quote - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
  }
  return text.length
}

/** Reports whether an id is a number such as 1.0 or 1e2, which JSON.parse changes. `text` must be JSON. */
export function hasRewrittenId(text: string): boolean {
  if (!suspectId.test(text)) return false
  const idDepth = text.trimStart().startsWith('[') ? 2 : 1
  let depth = 0
  brackets.lastIndex = 0
  for (let found = brackets.exec(text); found !== null; found = brackets.exec(text)) {
    const { 0: bracket, index } = found
    if (bracket === '{' || bracket === '[') depth += 1
    else if (bracket === '}' || bracket === ']') depth -= 1
    else {
      const end = endOfString(text, index)
      brackets.lastIndex = end
      if (depth !== idDepth || end - index > longestIdKey || JSON.parse(text.slice(index, end)) !== 'id') continue
      numberAfterKey.lastIndex = end
      const source = numberAfterKey.exec(text)?.[1]
      if (source !== undefined && String(Number(source)) !== source && Number.isSafeInteger(Number(source))) return true
    }
  }
  return false
}
