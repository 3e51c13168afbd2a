/**
 * Rows for a model in COPY's text format: a header, then one line for each row, with tabs between columns. `\N` is
 * NULL. Tabs, line ends and backslashes are escaped, so that each line is one row. Wide values are shortened. The token
 * limit decides the number of lines.
 */

import { atMostTokens } from '../../tokens/at-most.ts'
import { expectedTokens } from '../../tokens/expected.ts'

type Cell = string | null

type Table = {
  readonly text: string
  /** The number of included rows: at least one if there are any rows. */
  readonly rows: number
  /** The number of included columns, from the first column on. */
  readonly columns: number
  /** Indexes of columns with shortened values, from 0. */
  readonly shortened: readonly number[]
}

const escapes: { readonly [character: string]: string } = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
}
const backslash = 0x5c
const firstEscaped = 0x08
const lastEscaped = 0x0d

/** For short values, which are the most frequent, this loop is faster than a regular expression. */
function escaped(text: string): string {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === backslash || (code >= firstEscaped && code <= lastEscaped))
      return text.replace(/[\\\b\f\n\r\t\v]/g, character => escapes[character] ?? character)
  }
  return text
}

/** The minimum and maximum shown length of a value, in characters. */
const narrowest = 200
const widest = 2_000
/** A value of fewer characters would be useless. */
const leastWidth = 8

/** Truncates to a number of characters without splitting a surrogate pair. */
const truncate = (text: string, length: number): string => text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')

/** Truncates a value that is too wide, and appends the number of missing characters. */
function shortCell(cell: string, width: number): string {
  const shown = truncate(cell, width)
  return `${escaped(shown)}…[+${cell.length - shown.length} characters]`
}

/** The maximum width of a value. A single row may be as wide as the limit allows. */
const widthFor = (rows: number, columns: number, tokens: number): number =>
  Math.max(
    narrowest,
    rows === 1
      ? Math.floor(tokens / Math.max(1, columns))
      : Math.min(widest, Math.floor(tokens / (4 * Math.max(1, columns)))),
  )

/** The first `count` cells as a line. Adds the indexes of shortened cells to `shortened`. */
function lineOf(cells: readonly Cell[], count: number, width: number, shortened?: Set<number>): string {
  let line = ''
  for (let index = 0; index < count; index++) {
    if (index > 0) line += '\t'
    const cell = cells[index] ?? null
    if (cell === null) line += '\\N'
    else if (cell.length <= width) line += escaped(cell)
    else {
      line += shortCell(cell, width)
      shortened?.add(index)
    }
  }
  return line
}

/** Column names are short, unless a user makes them long on purpose. */
const headerOf = (columns: readonly string[], count: number, width: number): string =>
  lineOf(columns, count, Math.min(narrowest, width))

/** Whether a text certainly has at most this many tokens. A token has at least one byte. */
const surelyFits = (text: string, tokens: number): boolean =>
  Buffer.byteLength(text) <= tokens || atMostTokens(text) <= tokens

type Shape = { readonly width: number; readonly columns: number }

/**
 * The width of values at which the header and the first row fit. If they fit at no width, also reduces the number of
 * columns.
 */
function shapeFor(columns: readonly string[], first: readonly Cell[], rows: number, tokens: number): Shape {
  let shape: Shape = { width: widthFor(rows, columns.length, tokens), columns: columns.length }
  const isTooLarge = ({ width, columns: count }: Shape) =>
    !surelyFits(`${headerOf(columns, count, width)}\n${lineOf(first, count, width)}\n`, tokens)
  while (isTooLarge(shape) && (shape.width > leastWidth || shape.columns > 1)) {
    const { width, columns: count } = shape
    shape =
      width > leastWidth
        ? { width: Math.max(leastWidth, Math.floor(width / 2)), columns: count }
        : { width, columns: Math.ceil(count / 2) }
  }
  return shape
}

/** The factor by which the estimate may be too low for unusual text. */
const margin = 1.08

/** The number of lines, at least one, that fit together with the header. */
function fittingLines(header: string, lines: readonly string[], tokens: number): number {
  let remaining = tokens - (expectedTokens(header) + 1) * margin
  for (const [index, line] of lines.entries()) {
    remaining -= (expectedTokens(line) + 1) * margin
    if (remaining < 0 && index > 0) return index
  }
  return lines.length
}

/** The rows of a page, decoded only if necessary. */
export type PageRows = {
  readonly length: number
  decoded(): readonly (readonly Cell[])[]
  /**
   * The lines of the rows in the format of `TextRows` in services/postgres/text-rows.ts; undefined if a row cannot be
   * written unchanged.
   */
  plainLines?(widest: number, maximumBytes: number): string | undefined
}

/**
 * The table if all rows are short and can be written unchanged; otherwise undefined. A token has at least one byte, so
 * short rows need no estimate of tokens.
 */
export function plainTable(columns: readonly string[], rows: PageRows, tokens: number): Table | undefined {
  const header = headerOf(columns, columns.length, narrowest)
  const remaining = tokens - Buffer.byteLength(header) - 1
  const lines = rows.length === 0 ? undefined : rows.plainLines?.(narrowest, remaining)
  return lines === undefined
    ? undefined
    : { text: `${header}\n${lines}`, rows: rows.length, columns: columns.length, shortened: [] }
}

/** The table with as many rows as fit the token limit. */
export function tableText(columns: readonly string[], rows: readonly (readonly Cell[])[], tokens: number): Table {
  const [first = []] = rows
  const { width, columns: count } = shapeFor(columns, first, rows.length, tokens)
  const header = headerOf(columns, count, width)
  const shortened = new Set<number>()
  const lines = rows.map(row => lineOf(row, count, width, shortened))
  const complete = lines.length === 0 ? header : `${header}\n${lines.join('\n')}`
  // A token has at least one byte, so short rows need no estimate.
  if (Buffer.byteLength(complete) <= tokens) return tableOf(complete, lines.length, count, shortened)
  const fitting = fittingLines(header, lines, tokens)
  if (fitting === lines.length) return tableOf(complete, fitting, count, shortened)
  const ofShown = new Set<number>()
  for (const row of rows.slice(0, fitting)) lineOf(row, count, width, ofShown)
  return tableOf([header, ...lines.slice(0, fitting)].join('\n'), fitting, count, ofShown)
}

const tableOf = (text: string, rows: number, columns: number, shortened: ReadonlySet<number>): Table => ({
  text,
  rows,
  columns,
  shortened: [...shortened].sort((a, b) => a - b),
})
