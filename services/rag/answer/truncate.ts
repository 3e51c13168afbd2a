/**
 * Truncates a text to a number of tokens: at the end of a sentence, in any language; between words if the first
 * sentence is too long. Pure.
 */
import type { CountTokens } from './tokens.ts'

/** More characters than a token has, except in runs of spaces. A longer text is not counted. */
const charactersPerToken = 16
const charactersOfStep = 20
const longestWord = 40
/** A text truncated below this is not useful. */
const leastTokens = 100

const sentences = new Intl.Segmenter(undefined, { granularity: 'sentence' })

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff

/** The start of a text, without splitting a surrogate pair. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text
  return text.slice(0, isHighSurrogate(text.charCodeAt(length - 1)) ? length - 1 : length)
}

export const mayFit = (text: string, tokens: number): boolean => text.length <= tokens * charactersPerToken

/** The first sentences that fit. */
function sentencesWithin(text: string, tokens: number, count: CountTokens): string {
  let [end, sum] = [0, 0]
  for (const { segment, index } of sentences.segment(text)) {
    // The last one may already be truncated.
    if (index + segment.length === text.length) break
    // A space belongs to the following word.
    const next = index + segment.trimEnd().length
    sum += count(text.slice(end, next))
    if (sum > tokens) break
    end = next
  }
  return text.slice(0, end)
}

/** The first words that fit, to within a step. */
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
 * Returns the start of a text that has more than so many tokens; undefined if too little of it would remain.
 * @param isNeeded any start is better than none
 */
export function truncateTo(text: string, tokens: number, count: CountTokens, isNeeded: boolean): string | undefined {
  const considered = beginning(text, Math.max(0, tokens) * charactersPerToken)
  const complete = sentencesWithin(considered, tokens, count)
  if (complete !== '' && count(complete) >= leastTokens) return complete
  const words = isNeeded ? wordsWithin(considered, tokens, count) : ''
  return words === '' ? undefined : words
}
