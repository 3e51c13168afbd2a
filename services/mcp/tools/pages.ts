/**
 * Splits long answers into pages. A page has as many lines as fit the token limit, under the headings of their
 * sections, and the position of the next page. Every page has at least one line, which may be truncated.
 */
import { createHash } from 'node:crypto'
import type { Json } from '../../mcp-protocol/json.ts'

export type Section = { readonly heading: string; readonly lines: readonly string[] }
type Position = { readonly section: number; readonly line: number }
type Page = { readonly text: string; readonly next: Position | undefined }

export const start: Position = { section: 0, line: 0 }

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** One line of cells. Separators inside a cell are escaped. */
export const line = (cells: readonly (string | number)[]): string =>
  cells
    .map(cell => String(cell).replace(/[\\\t\n\r]/g, character => escapes[character] ?? character))
    .join('\t')
    .trimEnd()

/** Truncates to a number of UTF-16 code units, and does not split a surrogate pair. */
export const shortened = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`

/** Truncates to a number of tokens. `atMostTokens` counts at most three tokens for a UTF-16 code unit. */
export const shortenedToTokens = (text: string, tokens: number): string =>
  shortened(text, Math.max(1, Math.floor(tokens / 3)))

/** With fewer tokens, a page would contain only its heading. */
const leastBudget = 100

/** Returns one page from the given position. A page that begins inside a section repeats the section's heading. */
export function pageOf(
  sections: readonly Section[],
  from: Position,
  budget: number,
  tokensOf: (text: string) => number,
): Page {
  const taken: string[] = []
  let remaining = Math.max(leastBudget, budget)
  const take = (text: string) => {
    taken.push(text)
    remaining -= tokensOf(text) + 1
  }
  let isFirst = true
  for (let section = from.section; section < sections.length; section++) {
    const { heading, lines } = sections[section] ?? { heading: '', lines: [] }
    const begin = section === from.section ? from.line : 0
    const opening = taken.length === 0 ? heading : `\n${heading}`
    if (!isFirst && tokensOf(opening) + tokensOf(lines[begin] ?? '') + 2 > remaining)
      return { text: taken.join('\n'), next: { section, line: begin } }
    take(opening)
    for (let at = begin; at < lines.length; at++) {
      const text = lines[at] ?? ''
      if (tokensOf(text) + 1 > remaining) {
        if (!isFirst) return { text: taken.join('\n'), next: { section, line: at } }
        take(shortenedToTokens(text, remaining))
      } else take(text)
      isFirst = false
    }
    isFirst = false
  }
  return { text: taken.join('\n'), next: undefined }
}

const fingerprintOf = (question: Json) =>
  createHash('sha256').update(JSON.stringify(question)).digest('base64url').slice(0, 8)

/** A cursor that continues a call. It is valid only for the same arguments. */
export const cursorOf = (question: Json, { section, line: at }: Position): string =>
  `${fingerprintOf(question)}.${section}.${at}`

/** Returns undefined if the cursor belongs to other arguments, or is invalid. */
export function positionOf(question: Json, cursor: string): Position | undefined {
  const [, fingerprint, section, at] = /^([\w-]{8})\.(\d{1,6})\.(\d{1,6})$/.exec(cursor) ?? []
  return fingerprint === fingerprintOf(question) ? { section: Number(section), line: Number(at) } : undefined
}
