/** Cuts a text to a number of tokens: at the end of a sentence, in any language; between words where a sentence is longer than that. Pure. */
import type { CountTokens } from './tokens.ts'

/** More than texts have for a token, but for runs of spaces. What is longer is not counted. */
const charactersPerToken = 16
const charactersOfStep = 20
const longestWord = 40
/** A text that is cut shorter than this says too little. */
const leastTokens = 100

const sentences = new Intl.Segmenter(undefined, { granularity: 'sentence' })

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff

/** The beginning of a text, never half of a character. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text
  return text.slice(0, isHighSurrogate(text.charCodeAt(length - 1)) ? length - 1 : length)
}

export const mayFit = (text: string, tokens: number): boolean => text.length <= tokens * charactersPerToken

/** The sentences of the beginning that fit. */
function wholeSentences(text: string, tokens: number, count: CountTokens): string {
  let [end, sum] = [0, 0]
  for (const { segment, index } of sentences.segment(text)) {
    // The last one may be cut already.
    if (index + segment.length === text.length) break
    // A space goes with the word behind it.
    const next = index + segment.trimEnd().length
    sum += count(text.slice(end, next))
    if (sum > tokens) break
    end = next
  }
  return text.slice(0, end)
}

/** The words of the beginning that fit, to within a step. */
function wholeWords(text: string, tokens: number, count: CountTokens): string {
  let end = 0
  for (let sum = 0; end < text.length; ) {
    const step = beginning(text.slice(end, end + charactersOfStep + 1), charactersOfStep)
    sum += count(step)
    if (sum > tokens) break
    end += step.length
  }
  const fitting = text.slice(0, end)
  const tail = fitting.slice(-longestWord)
  const space = /\s\S*$/.exec(tail)
  return (space === null ? fitting : fitting.slice(0, fitting.length - tail.length + space.index)).trimEnd()
}

/**
 * Returns the beginning of a text that takes more than so many tokens; undefined if too little of it would be left.
 * @param isNeeded any beginning is better than none
 */
export function cutTo(text: string, tokens: number, count: CountTokens, isNeeded: boolean): string | undefined {
  const considered = beginning(text, Math.max(0, tokens) * charactersPerToken)
  const whole = wholeSentences(considered, tokens, count)
  if (whole !== '' && count(whole) >= leastTokens) return whole
  const words = isNeeded ? wholeWords(considered, tokens, count) : ''
  return words === '' ? undefined : words
}
