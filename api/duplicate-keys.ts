/**
 * Finds duplicate keys in one object of JSON (RFC 8259, section 4: unpredictable behaviour). The API refuses such a
 * body, because JSON.parse uses the last key, but a proxy may use the first.
 */

/**
 * The current position in the text: an object with its keys so far, or an array. Most objects are small, so a Set is
 * created only with the second key.
 */
type ObjectFrame = { isObject: true; first: string | undefined; others: Set<string> | undefined; key: string }
type ArrayFrame = { isObject: false; index: number }
type Frame = ObjectFrame | ArrayFrame

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

const textOf = (literal: string): string =>
  literal.includes('\\') ? String(JSON.parse(literal)) : literal.slice(1, -1)

/** Records the key, and returns whether it is a duplicate. */
function isSeen(frame: ObjectFrame, key: string): boolean {
  frame.key = key
  if (frame.first === undefined) {
    frame.first = key
    return false
  }
  if (frame.first === key || frame.others?.has(key)) return true
  frame.others ??= new Set()
  frame.others.add(key)
  return false
}

/** Returns the position after the closing quote of the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) return at + 1
    if (code === backslash) at++
  }
  return text.length
}

/** Returns the path of the first duplicate key; undefined if there is none. `text` must be valid JSON. */
export function duplicateKey(text: string): PropertyKey[] | undefined {
  const stack: Frame[] = []
  // A string is a key if it is at the start of an object or of an object's member.
  let beginsMember = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      const end = endOfString(text, at)
      const top = stack.at(-1)
      if (beginsMember && top?.isObject === true && isSeen(top, textOf(text.slice(at, end))))
        return stack.map(frame => (frame.isObject ? frame.key : frame.index))
      beginsMember = false
      at = end - 1
    } else if (code === openBrace) {
      stack.push({ isObject: true, first: undefined, others: undefined, key: '' })
      beginsMember = true
    } else if (code === openBracket) {
      stack.push({ isObject: false, index: 0 })
      beginsMember = false
    } else if (code === closeBrace || code === closeBracket) stack.pop()
    else if (code === comma) {
      const top = stack.at(-1)
      if (top?.isObject === false) top.index++
      beginsMember = top?.isObject === true
    }
  }
  return undefined
}
