/**
 * Estimates a text's tokens, within a tenth for usual database rows. It splits the text as current tokenizers do:
 * digits in groups of three, words with the preceding character, punctuation in runs. It estimates the splits within
 * words from their letters. Letters with accents count as their base letters.
 */
import { atMostTokens } from './at-most.ts'
import { letterWeights } from './letter-weights.ts'

const bytes = Buffer.from(letterWeights, 'base64')
const weights = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)
/** The offsets of the weights for case and length, and of the shares. */
const shapeAt = 6 * 1_024
const sharesAt = shapeAt + 48
const sharesOfLength = 24
const longest = 15
/** After a space, words of a language are more frequent than in the fitted texts. */
const likelyWord = 0.4
const splitsInProse = 0.55
/** Also for a word in an address or path, because such words are common there. */
const likelyInAddress = 0.35
const splitsInAddress = 0.35
/** Also for a word in a name of several words, after `.` and `_`. */
const splitsInName = 0.65
/** The addition for accents. In a word of mostly accents, each such letter is about a token. */
const accentTokens = 0.2
const accentTokensOfOdd = 0.8

/**
 * The tables' symbols besides letters (1 to 26): the end of a word, the character before it, and the character before
 * that.
 */
const end = 0
const [nothing, space, tab, sign, outside] = [27, 28, 29, 30, 31]

/** The probability that a token ends, for each sum of weights from -1,024 to 1,023. */
const chances = Float32Array.from({ length: 2_048 }, (_, sum) => 1 / (1 + Math.exp((1_024 - sum) / 16)))

const chance = (first: number, second: number, third: number, fourth: number, shape: number): number => {
  const sum =
    (weights[(first << 5) | second] ?? 0) +
    (weights[1_024 + ((second << 5) | third)] ?? 0) +
    (weights[2_048 + ((third << 5) | fourth)] ?? 0) +
    (weights[3_072 + ((first << 5) | third)] ?? 0) +
    (weights[4_096 + ((second << 5) | fourth)] ?? 0) +
    (weights[5_120 + ((first << 5) | fourth)] ?? 0) +
    (weights[shapeAt + shape] ?? 0)
  return chances[sum + 1_024] ?? 0
}

/** Latin letters with accents: 1 to 26 by base letter, plus 32 for lower case. 0: not such a letter. */
const accentFrom = 0xc0
const accentTo = 0x250
const ligatures: { readonly [letter: string]: string } = {
  ß: 's',
  æ: 'a',
  œ: 'o',
  ø: 'o',
  ł: 'l',
  ı: 'i',
  đ: 'd',
  ð: 'd',
  þ: 't',
}
const accents = Uint8Array.from({ length: accentTo - accentFrom }, (_, index) => {
  const letter = String.fromCharCode(accentFrom + index)
  const small = letter.toLowerCase()
  const base = ligatures[small] ?? small.normalize('NFD').charAt(0)
  return /^[a-z]/.test(base) ? (base.charCodeAt(0) & 0x1f) + (letter === small ? 32 : 0) : 0
})
const accentOf = (code: number): number =>
  code >= accentFrom && code < accentTo ? (accents[code - accentFrom] ?? 0) : 0

const isLower = (code: number) => (code < 0x80 ? code >= 0x61 && code <= 0x7a : accentOf(code) > 32)
const isUpper = (code: number) =>
  code < 0x80 ? code >= 0x41 && code <= 0x5a : (accentOf(code) & 63) > 0 && accentOf(code) <= 32
const isDigit = (code: number) => code >= 0x30 && code <= 0x39

/** The end of the word that starts here: capitals, then lower case letters. */
function wordEnd(text: string, from: number): number {
  let at = from
  while (isUpper(text.charCodeAt(at))) at++
  while (isLower(text.charCodeAt(at))) at++
  return at
}

/** How many characters of a run of one character are one token. 4 if the character is not listed. */
const widths = new Map<string, number>()
for (const [width, characters] of [
  [80, '#*-/='],
  [40, '._'],
  [26, '%+~'],
  [16, ':;!X'],
  [8, 'afloxAF^<>?@'],
  [2, 'gjnpqtuwzDGHJKNPQRSTUVWZ[]{}&`'],
] as const)
  for (const character of characters) widths.set(character, width)
const leastRun = 6

/** The tokens of a run of one character. Undefined if the text is not such a run, or is too short to matter. */
function ofRun(text: string, from: number, to: number): number | undefined {
  if (to - from < leastRun) return undefined
  const code = text.charCodeAt(from)
  for (let at = from + 1; at < to; at++) if (text.charCodeAt(at) !== code) return undefined
  return code < 0x80 ? Math.ceil((to - from) / (widths.get(text.charAt(from)) ?? 4)) : undefined
}

/** The addition for a word's accents. */
function ofAccents(text: string, from: number, to: number, usual: number): number {
  let count = 0
  for (let at = from; at < to; at++) if (text.charCodeAt(at) > 0x7f) count++
  return count * (count * 3 > to - from ? accentTokensOfOdd : usual)
}

/** The tokens of a word after the character `before`. */
function ofWord(text: string, from: number, to: number, before: number, likelySplits: number): number {
  const run = ofRun(text, from, to)
  if (run !== undefined) return run + (before === nothing ? 0 : 1)
  // Each letter is a token, with a space before it.
  if (before === space && to - from === 1) return 1
  const symbol = (at: number) => {
    if (at >= to) return end
    const code = text.charCodeAt(at)
    return code < 0x80 ? (code & 0x5f) - 0x40 : accentOf(code) & 31
  }
  const hasCapital = isUpper(text.charCodeAt(from))
  const kind = hasCapital ? (to - from > 1 && isLower(text.charCodeAt(from + 1)) ? 1 : 2) : 0
  const shape = kind * 16 + Math.min(to - from, longest)
  let [first, second, third, fourth] = [outside, before, symbol(from), symbol(from + 1)]
  let sum = before === nothing ? 0 : chance(first, second, third, fourth, shape)
  for (let at = from + 1; at < to; at++) {
    first = second
    second = third
    third = fourth
    fourth = symbol(at + 1)
    sum += chance(first, second, third, fourth, shape)
  }
  const boundaries = to - from - (before === nothing ? 1 : 0)
  if (boundaries === 0) return 1
  // A tokenizer probably knows a word if all its letters are likely in this sequence.
  const ratio = sum / boundaries
  const share = Math.min(sharesOfLength - 1, Math.floor(ratio * sharesOfLength))
  const splits = (boundaries * (bytes[sharesAt + Math.min(boundaries, longest) * sharesOfLength + share] ?? 0)) / 255
  const more = ofAccents(text, from, to, kind === 1 && before !== space ? accentTokensOfOdd : accentTokens)
  if (before === space && ratio < likelyWord) return 1 + splits * splitsInProse + more
  return 1 + more + (kind === 0 && ratio < likelyInAddress ? splits * likelySplits : splits)
}

const slash = 0x2f
const dot = 0x2e
const underscore = 0x5f
const quote = 0x22
const isLetter = (code: number) => isLower(code) || isUpper(code)
const isLineEnd = (code: number) => code === 0x0a || code === 0x0d
const isSign = (code: number) => code > 0x20 && code < 0x7f && !isLetter(code) && !isDigit(code)

/**
 * The tokens of a run of punctuation, with following line ends. A run of few characters is one token, such as `://` and,
 * in JSON, `":{"`.
 */
function ofSigns(text: string, from: number, signsEnd: number, to: number): number {
  const run = ofRun(text, from, signsEnd)
  if (run !== undefined) return run + (to > signsEnd ? 1 : 0)
  const count = to - from
  if (count <= 2 || (count <= 4 && text.slice(from, to).includes('"'))) return 1
  return count === 3 ? 1.35 : count / 1.8
}

/** The position in the text, and the tokens up to it. */
type Read = { at: number; sum: number; isInAddress: boolean }

function takeWord(text: string, read: Read, before: number, isOfName = false): void {
  const to = wordEnd(text, read.at)
  read.sum += ofWord(text, read.at, to, before, read.isInAddress ? splitsInAddress : isOfName ? splitsInName : 1)
  read.at = to
}

function takeSigns(text: string, read: Read): void {
  const from = read.at
  while (isSign(text.charCodeAt(read.at))) {
    if (text.charCodeAt(read.at) === slash) read.isInAddress = true
    read.at++
  }
  const signsEnd = read.at
  while (isLineEnd(text.charCodeAt(read.at))) read.at++
  if (read.at > signsEnd) read.isInAddress = false
  read.sum += ofSigns(text, from, signsEnd, read.at)
}

/** A single punctuation mark or space belongs to the next word. Several do not. */
function takeOther(text: string, code: number, read: Read): void {
  const from = read.at
  if (code === slash) read.isInAddress = true
  else if (code <= 0x20 || code === quote) read.isInAddress = false
  if (isSign(code)) {
    if (isLetter(text.charCodeAt(from + 1))) {
      read.at++
      takeWord(text, read, sign, code === dot || code === underscore)
    } else takeSigns(text, read)
    return
  }
  do read.at++
  while (text.charCodeAt(read.at) === code)
  const next = text.charCodeAt(read.at)
  if (read.at - from > 1) read.sum++
  if (isLetter(next)) takeWord(text, read, code === 0x20 ? space : code === 0x09 ? tab : sign)
  else if (code === 0x20 && isSign(next)) takeSigns(text, read)
  else if (read.at - from === 1) read.sum++
}

/** The tokens of a UTF-16 unit in prose of other scripts, and in emoji. */
const usualTokens = 1.3

/**
 * `others`: how to count text that is neither ASCII nor Latin. Either as `atMostTokens` does, or with its usual tokens.
 */
export function expectedTokens(text: string, others: 'at most' | 'usual' = 'at most'): number {
  const read: Read = { at: 0, sum: 0, isInAddress: false }
  while (read.at < text.length) {
    const from = read.at
    const code = text.charCodeAt(from)
    if (isLetter(code)) takeWord(text, read, nothing)
    else if (isDigit(code)) {
      while (isDigit(text.charCodeAt(read.at))) read.at++
      read.sum += Math.ceil((read.at - from) / 3)
    } else if (code > 0x7f) {
      while (text.charCodeAt(read.at) > 0x7f && accentOf(text.charCodeAt(read.at)) === 0) read.at++
      read.sum += others === 'usual' ? (read.at - from) * usualTokens : atMostTokens(text.slice(from, read.at))
    } else takeOther(text, code, read)
  }
  return read.sum
}
