/**
 * Splits a text into words for comparison: in lower case, with accents, and with plurals as singulars. Scripts without
 * spaces become pairs of characters.
 */

const word = /[\p{L}\p{N}]+/gu
const withoutBlanks = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u

/** English stop words, because most texts are in English. */
const empty = new Set(
  `a an and any are as at be been but by can could did do does for from get had has have how i if in into is it its just me my no not of on or our
  so such that the their them then there these they this to was we were what when where which who why will with would you your`.split(
    /\s+/,
  ),
)

const singular = (one: string): string => {
  if (one.length > 4 && one.endsWith('ies')) return `${one.slice(0, -3)}y`
  return one.length > 3 && one.endsWith('s') && !/(ss|us|is)$/.test(one) ? one.slice(0, -1) : one
}

function pairs(run: string): readonly string[] {
  const characters = [...run]
  if (characters.length < 2) return characters
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`)
}

export const wordsOf = (text: string): readonly string[] =>
  [...text.normalize('NFKC').toLowerCase().matchAll(word)].flatMap(([one]) => {
    if (empty.has(one)) return []
    return withoutBlanks.test(one) ? pairs(one) : [singular(one)]
  })
