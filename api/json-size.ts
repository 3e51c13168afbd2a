/**
 * Limits the fields and values of a JSON text before it is parsed. Parsing 60,000 unknown keys takes a third of a
 * second, which blocks all other requests. Counting up to the limit takes a fraction of a millisecond.
 */

const [quote, backslash, colon, comma, brace] = [0x22, 0x5c, 0x3a, 0x2c, 0x7b]

/**
 * The largest body that the API's description permits has about 60 names, and 13,000 fields (50 pipelines of 50
 * tables).
 */
export const mostNames = 500
export const mostValues = 50_000

/**
 * Returns the limit that a text exceeds, as a message; undefined if it exceeds none. For text that is not JSON, the
 * result has no meaning.
 */
export function excessOf(text: Uint8Array): string | undefined {
  const names = new Set<number>()
  // Nested brackets alone are parsed quickly, and ignored members may contain them.
  let values = 0
  /** The hash of the last string. Names with the same hash count as one, which is harmless because of `mostValues`. */
  let hash = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at]
    if (byte === quote) {
      hash = 0x811c9dc5
      for (at++; at < text.length && text[at] !== quote; at++) {
        if (text[at] === backslash) at++
        hash = Math.imul(hash ^ (text[at] ?? 0), 0x01000193)
      }
    } else if (byte === colon) {
      names.add(hash)
      if (names.size > mostNames) return `must have at most ${mostNames} different field names`
    } else if (byte === comma || byte === brace) {
      values++
      if (values > mostValues) return `must have at most ${mostValues} values`
    }
  }
  return undefined
}
