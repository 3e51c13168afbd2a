/**
 * Truncates a text to a number of tokens. Truncates at the end of a sentence, in any language, or between words if the
 * first sentence is too long.
 */
import type { CountTokens } from './tokens.ts'

/** No token has more characters, except in runs of spaces. Text beyond this limit is cut off before counting. */
const charactersPerToken = 16
const charactersOfStep = 20
const longestWord = 40
/** A text with fewer tokens after truncation is not useful. */
const leastTokens = 100

const sentences = new Intl.Segmenter(undefined, { granularity: 'sentence' })

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff

/** The start of a text, without splitting a surrogate pair. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text
  return text.slice(0, isHighSurrogate(text.charCodeAt(length - 1)) ? length - 1 : length)
}

export const mayFit = (text: string, tokens: number): boolean => text.length <= tokens * charactersPerToken

/** Returns the first sentences that fit. */
function sentencesWithin(text: string, tokens: number, count: CountTokens): string {
  let [end, sum] = [0, 0]
  for (const { segment, index } of sentences.segment(text)) {
    // The last sentence may have been cut off before.
    if (index + segment.length === text.length) break
    // A space belongs to the word after it.
    const next = index + segment.trimEnd().length
    sum += count(text.slice(end, next))
    if (sum > tokens) break
    end = next
  }
  return text.slice(0, end)
}

/** Returns approximately the first words that fit. */
function wordsWithin(text: string, tokens: number, count: CountTokens): string {
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
 * Returns the start of a text that is longer than `tokens`; undefined if too little of the text would remain.
 * @param isNeeded whether any start of the text is better than none
 */
export function truncateTo(text: string, tokens: number, count: CountTokens, isNeeded: boolean): string | undefined {
  const considered = beginning(text, Math.max(0, tokens) * charactersPerToken)
  const complete = sentencesWithin(considered, tokens, count)
  if (complete !== '' && count(complete) >= leastTokens) return complete
  const words = isNeeded ? wordsWithin(considered, tokens, count) : ''
  return words === '' ? undefined : words
}
