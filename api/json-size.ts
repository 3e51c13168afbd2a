/**
 * How much there is in a text of JSON, before anything parses it. To parse 60,000 keys that no field of ours is called takes
 * a third of a second, in which nobody else is answered; to count to the limit takes a fraction of a millisecond.
 */

const [quote, backslash, colon, comma, brace] = [0x22, 0x5c, 0x3a, 0x2c, 0x7b]

/** The largest body that the API's description permits has some 60 names, and 13,000 fields (50 pipelines of 50 tables). */
export const mostNames = 500
export const mostValues = 50_000

/** The limit that a text is beyond, in words; undefined where it is beyond none. Of text that is no JSON anything. */
export function excessOf(text: Uint8Array): string | undefined {
  const names = new Set<number>()
  // Brackets that only nest are parsed fast, and stand in members that are ignored.
  let values = 0
  /** Of the string that was read last: names that have one hash count as one, which is no harm beside `mostValues`. */
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
      if (names.size > mostNames) return `must have at most ${mostNames} fields of different names`
    } else if (byte === comma || byte === brace) {
      values++
      if (values > mostValues) return `must have at most ${mostValues} values`
    }
  }
  return undefined
}
