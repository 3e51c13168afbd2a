/**
 * The upper bound of a text's tokens. The client's tokenizer is unknown, so the estimate is high: twice the tokens of
 * English. It is a little more than random letters, Base64, digits and scripts without spaces need.
 */

/** A single space belongs to the next word, but not to a digit. */
const piece = /[a-z]+|[A-Z][a-z]*|\d+| (?=\d)| +|[^\x20-\x7e]|./gsu
/** A possible word: it has vowels, no letters that are rare in words, and no repeated groups of letters. */
const wordLike = /^[A-Za-z]?[bcdfghklmnprstvwy]{0,2}(?:[aeiouy]{1,2}[bcdfghklmnprstvwy]{1,3})*[aeiouy]{0,2}$/

/**
 * The maximum letters of a word, and of `y` in it. `y` may be a vowel or not, so a text with many would take too long
 * to match.
 */
const longestWord = 64
const manyOfEither = /y[^y]*y[^y]*y[^y]*y/
const isWordLike = (text: string): boolean =>
  text.length <= longestWord &&
  !manyOfEither.test(text) &&
  wordLike.test(text) &&
  (text.length < 4 || new Set(text).size * 2 > text.length)

/**
 * Pieces that rarely have fewer tokens than letters: `Qd`, `zqzz`. A text can consist only of such pieces, without
 * other pieces that compensate.
 */
const isOdd = (text: string): boolean => /^[A-Z].$/.test(text) || !/[aeiou]/i.test(text)

/** For non-ASCII text. Unlisted characters may need one token for each byte. */
const scripts: readonly (readonly [from: number, to: number, tokens: number])[] = [
  [0xa0, 0x6ff, 1.4],
  [0x3040, 0x30ff, 2],
  [0x4e00, 0x9fff, 2.4],
  [0xac00, 0xd7a3, 2],
]

function ofCharacter(text: string): number {
  const code = text.codePointAt(0) ?? 0
  if (code < 0x80) return 1
  return scripts.find(([from, to]) => code >= from && code <= to)?.[2] ?? Buffer.byteLength(text)
}

function ofPiece(text: string, isBeforeDigit: boolean): number {
  const code = text.charCodeAt(0)
  // Digits form groups of three.
  if (code >= 0x30 && code <= 0x39) return Math.ceil(text.length / 3)
  if (code > 0x7e || code < 0x20) return ofCharacter(text)
  if (code === 0x20) return (text.length > 1 ? 1 + text.length / 16 : 0.34) + (isBeforeDigit ? 1 : 0)
  if (text.length === 1 || isOdd(text)) return text.length
  return Math.ceil(isWordLike(text) ? text.length / 2.2 : text.length / 1.5)
}

export function atMostTokens(text: string): number {
  let sum = 0
  for (const { 0: part, index } of text.matchAll(piece)) {
    const next = text.charCodeAt(index + part.length)
    sum += ofPiece(part, next >= 0x30 && next <= 0x39)
  }
  return Math.ceil(sum)
}
