/** Plain text as blocks: paragraphs are apart by an empty line. */
import type { Block } from './types.ts'

/** A file without empty lines is cut there, so that no step holds it as words. */
const longestParagraph = 65_536

export function textBlocks(text: string): readonly Block[] {
  const blocks: Block[] = []
  let from = 0
  const take = (to: number) => {
    while (from < to) {
      const end = cutAt(text, from, to)
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

/** `to`, or if that is too far the place behind the last blank before. */
function cutAt(text: string, from: number, to: number): number {
  const most = from + longestParagraph
  if (to <= most) return to
  const blank = Math.max(text.lastIndexOf(' ', most), text.lastIndexOf('\n', most))
  if (blank > from) return blank + 1
  // Not between the two halves of one character.
  return /[\uD800-\uDBFF]/.test(text.charAt(most - 1)) ? most - 1 : most
}
