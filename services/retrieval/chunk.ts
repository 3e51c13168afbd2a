/**
 * Splits a text into chunks of about this many tokens with a small overlap, so that text at a boundary is complete in
 * one chunk. Every word is in a chunk. Chunks are in order, and none is much larger than requested.
 */
import { estimateTokens } from './tokens.ts'

/** `start`: the chunk's position in the text. */
type Chunk = { readonly text: string; readonly index: number; readonly start: number }

/** Text without spaces, such as Base64 or Chinese, is split into pieces of this many characters. */
const longestPiece = 16

type Piece = { readonly start: number; readonly end: number; readonly tokens: number; readonly endsSentence: boolean }

const pieces = (text: string): readonly Piece[] =>
  [...text.matchAll(new RegExp(`\\S{1,${longestPiece}}`, 'gu'))].map(({ 0: word, index }) => ({
    start: index,
    end: index + word.length,
    tokens: estimateTokens(word),
    endsSentence:
      /[.!?。！？]["')\]]?$/.test(word) || /^\s*\n/.test(text.slice(index + word.length, index + word.length + 20)),
  }))

export function chunks(text: string, maximumTokens: number, overlapTokens: number): readonly Chunk[] {
  const all = pieces(text)
  const found: Chunk[] = []
  for (let first = 0; first < all.length; ) {
    const end = endOf(all, first, maximumTokens)
    const [from, to] = [all[first]?.start ?? 0, all[end - 1]?.end ?? 0]
    found.push({ text: text.slice(from, to), index: found.length, start: from })
    if (end >= all.length) break
    first = Math.max(first + 1, back(all, end, overlapTokens))
  }
  return found
}

/** The index after the last piece that fits, or after the end of a sentence in the second half of the chunk. */
function endOf(all: readonly Piece[], first: number, maximumTokens: number): number {
  let tokens = 0
  let sentence: number | undefined
  for (let at = first; at < all.length; at++) {
    const piece = all[at]
    tokens += piece?.tokens ?? 0
    if (tokens > maximumTokens && at > first) return sentence ?? at
    if (piece?.endsSentence && tokens >= maximumTokens / 2) sentence = at + 1
  }
  return all.length
}

/** The index at which the overlap before `end` starts. */
function back(all: readonly Piece[], end: number, overlapTokens: number): number {
  let tokens = 0
  let at = end
  while (at > 0 && tokens + (all[at - 1]?.tokens ?? 0) <= overlapTokens) tokens += all[--at]?.tokens ?? 0
  return at
}
