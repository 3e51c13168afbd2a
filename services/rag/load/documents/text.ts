/** Splits plain text into blocks: an empty line separates paragraphs. */
import type { Block } from './types.ts'

/** Text without empty lines is split at this length, so that no step keeps all words of a file in memory. */
const longestParagraph = 65_536

export function textBlocks(text: string): readonly Block[] {
  const blocks: Block[] = []
  let from = 0
  const take = (to: number) => {
    while (from < to) {
      const end = splitPosition(text, from, to)
      const piece = text.slice(from, end)
      const trimmed = piece.trim()
      if (trimmed !== '') blocks.push({ kind: 'text', text: trimmed, offset: from + piece.indexOf(trimmed) })
      from = end
    }
  }
  for (const { index } of text.matchAll(/\n[ \t\r]*(?=\n)/g)) take(index)
  take(text.length)
  return blocks
}

/** Returns `to`, or, if `to` is too far, the position after the last blank before the limit. */
function splitPosition(text: string, from: number, to: number): number {
  const most = from + longestParagraph
  if (to <= most) return to
  const blank = Math.max(text.lastIndexOf(' ', most), text.lastIndexOf('\n', most))
  if (blank > from) return blank + 1
  // The position must not be inside a surrogate pair.
  return /[\uD800-\uDBFF]/.test(text.charAt(most - 1)) ? most - 1 : most
}
