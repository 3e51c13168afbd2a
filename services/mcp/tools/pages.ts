/**
 * Long answers in pages: sections of lines under a heading, as many as the budget of tokens takes, and the place where the next page goes on. Every page takes the reader
 * further, if by one line that is cut.
 */
import { createHash } from 'node:crypto'
import type { Json } from '../../mcp-protocol/json.ts'

export type Section = { readonly heading: string; readonly lines: readonly string[] }
type Place = { readonly section: number; readonly line: number }
type Page = { readonly text: string; readonly next: Place | undefined }

export const start: Place = { section: 0, line: 0 }

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** One line of cells; what would end a cell or a line is written out. */
export const line = (cells: readonly (string | number)[]): string =>
  cells
    .map(cell => String(cell).replace(/[\\\t\n\r]/g, character => escapes[character] ?? character))
    .join('\t')
    .trimEnd()

/** At most so many characters, and no half of one. */
export const shortened = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`

/** With less, a page would be nothing but its heading. */
const leastBudget = 100

/** Sections one after the other, the heading again where a page begins inside a section. */
export function pageOf(
  sections: readonly Section[],
  from: Place,
  budget: number,
  tokensOf: (text: string) => number,
): Page {
  const taken: string[] = []
  let left = Math.max(leastBudget, budget)
  const take = (text: string) => {
    taken.push(text)
    left -= tokensOf(text) + 1
  }
  let isFirst = true
  for (let section = from.section; section < sections.length; section++) {
    const { heading, lines } = sections[section] ?? { heading: '', lines: [] }
    const begin = section === from.section ? from.line : 0
    const opening = taken.length === 0 ? heading : `\n${heading}`
    if (!isFirst && tokensOf(opening) + tokensOf(lines[begin] ?? '') + 2 > left)
      return { text: taken.join('\n'), next: { section, line: begin } }
    take(opening)
    for (let at = begin; at < lines.length; at++) {
      const text = lines[at] ?? ''
      if (tokensOf(text) + 1 > left) {
        if (!isFirst) return { text: taken.join('\n'), next: { section, line: at } }
        // One token is at least a third of a character, whatever it is of.
        take(shortened(text, Math.max(1, Math.floor(left / 3))))
      } else take(text)
      isFirst = false
    }
    isFirst = false
  }
  return { text: taken.join('\n'), next: undefined }
}

const fingerprintOf = (question: Json) =>
  createHash('sha256').update(JSON.stringify(question)).digest('base64url').slice(0, 8)

/** Where to go on with a question, for whoever asks the same again. */
export const cursorOf = (question: Json, { section, line: at }: Place): string =>
  `${fingerprintOf(question)}.${section}.${at}`

/** undefined: it is of another question, or no cursor at all. */
export function placeOf(question: Json, cursor: string): Place | undefined {
  const [, fingerprint, section, at] = /^([\w-]{8})\.(\d{1,6})\.(\d{1,6})$/.exec(cursor) ?? []
  return fingerprint === fingerprintOf(question) ? { section: Number(section), line: Number(at) } : undefined
}
