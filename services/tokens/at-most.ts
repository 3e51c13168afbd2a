/**
 * How many tokens a text comes to at most. Which tokenizer a client has is not known, so this errs to more: twice what English takes, and a little more than what
 * random letters, Base64, digits and scripts without spaces take.
 */

/** Single spaces go with the word behind them, but not with a digit. */
const piece = /[a-z]+|[A-Z][a-z]*|\d+| (?=\d)| +|[^\x20-\x7e]|./gsu
/** A word that may be one: vowels in between, no letter that is rare in words, and not the same few letters again and again. */
const wordLike = /^[A-Za-z]?[bcdfghklmnprstvwy]{0,2}(?:[aeiouy]{1,2}[bcdfghklmnprstvwy]{1,3})*[aeiouy]{0,2}$/

/** As many letters as a word has at most, and too many `y`: since this may be either, a text of many would be tried in more ways than there is time for. */
const longestWord = 64
const manyOfEither = /y[^y]*y[^y]*y[^y]*y/
const isWordLike = (text: string): boolean =>
  text.length <= longestWord &&
  !manyOfEither.test(text) &&
  wordLike.test(text) &&
  (text.length < 4 || new Set(text).size * 2 > text.length)

/** Rarely fewer tokens than letters: `Qd`, `zqzz`. A text can be made of a few such pieces alone, so that no others make up for them. */
const isOdd = (text: string): boolean => /^[A-Z].$/.test(text) || !/[aeiou]/i.test(text)

/** Of what is not ASCII; what is not named here may take a token for each byte. */
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
  // Digits go in threes.
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
