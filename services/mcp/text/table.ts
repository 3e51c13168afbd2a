/**
 * Rows as a model reads them: a header, then one line for each row, columns apart by tabs, in the text form of COPY: `\N` is NULL and an empty string is empty; tabs, line ends and backslashes
 * in values are escaped, so that a line is a row. Wide values are shortened, and lines end where the tokens do.
 */

import { atMostTokens } from '../../tokens/at-most.ts'
import { expectedTokens } from '../../tokens/expected.ts'

type Cell = string | null

type Table = {
  readonly text: string
  /** Rows that are in it: of some, one at least. */
  readonly rows: number
  /** Columns that are in it, from the first. */
  readonly columns: number
  /** Columns with values that were shortened, from 0. */
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

/** Quicker than a regular expression for what is short, as most values are. */
function escaped(text: string): string {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === backslash || (code >= firstEscaped && code <= lastEscaped))
      return text.replace(/[\\\b\f\n\r\t\v]/g, character => escapes[character] ?? character)
  }
  return text
}

/** So much of a value is shown at least, and so much at most, in characters. */
const narrowest = 200
const widest = 2_000
/** Less says nothing. */
const leastWidth = 8

/** In characters, without half of one. */
const cut = (text: string, length: number): string => text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')

/** A value that is wider, cut, with what it says of that. */
function shortCell(cell: string, width: number): string {
  const kept = cut(cell, width)
  return `${escaped(kept)}…[+${cell.length - kept.length} characters]`
}

/** One row alone may be as wide as there is room for. */
const widthFor = (rows: number, columns: number, tokens: number): number =>
  Math.max(
    narrowest,
    rows === 1
      ? Math.floor(tokens / Math.max(1, columns))
      : Math.min(widest, Math.floor(tokens / (4 * Math.max(1, columns)))),
  )

/** The first `count` cells as a line; which of them were shortened goes to `shortened`. */
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

/** Names of columns are short, but for those that were made to be long. */
const headerOf = (columns: readonly string[], count: number, width: number): string =>
  lineOf(columns, count, Math.min(narrowest, width))

/** Whether a text has at most so many tokens, whatever it says. A token has a byte at least. */
const surelyFits = (text: string, tokens: number): boolean =>
  Buffer.byteLength(text) <= tokens || atMostTokens(text) <= tokens

type Shape = { readonly width: number; readonly columns: number }

/** How wide values may be so that the header and the first row fit; where they cannot, how many columns do. */
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

/** The estimate may be so much too low for what is odd. */
const margin = 1.08

/** How many of the lines, and one at least, have room beside the header. */
function fittingLines(header: string, lines: readonly string[], tokens: number): number {
  let left = tokens - (expectedTokens(header) + 1) * margin
  for (const [index, line] of lines.entries()) {
    left -= (expectedTokens(line) + 1) * margin
    if (left < 0 && index > 0) return index
  }
  return lines.length
}

/** The rows of a page, decoded where they must be. */
export type PageRows = {
  readonly length: number
  decoded(): readonly (readonly Cell[])[]
  /** As `TextRows` of services/postgres/text-rows.ts has it; undefined where the rows are none that could be written as they are. */
  plainLines?(widest: number, maximumBytes: number): string | undefined
}

/** A table whose rows can be written as they are, and are short: a token has a byte at least. undefined: it is none. */
export function plainTable(columns: readonly string[], rows: PageRows, tokens: number): Table | undefined {
  const header = headerOf(columns, columns.length, narrowest)
  const left = tokens - Buffer.byteLength(header) - 1
  const lines = rows.length === 0 ? undefined : rows.plainLines?.(narrowest, left)
  return lines === undefined
    ? undefined
    : { text: `${header}\n${lines}`, rows: rows.length, columns: columns.length, shortened: [] }
}

/** As many rows as have room in so many tokens. */
export function tableText(columns: readonly string[], rows: readonly (readonly Cell[])[], tokens: number): Table {
  const [first = []] = rows
  const { width, columns: count } = shapeFor(columns, first, rows.length, tokens)
  const header = headerOf(columns, count, width)
  const shortened = new Set<number>()
  const lines = rows.map(row => lineOf(row, count, width, shortened))
  const whole = lines.length === 0 ? header : `${header}\n${lines.join('\n')}`
  // A token has a byte at least, so short rows need no estimate.
  if (Buffer.byteLength(whole) <= tokens) return tableOf(whole, lines.length, count, shortened)
  const fitting = fittingLines(header, lines, tokens)
  if (fitting === lines.length) return tableOf(whole, fitting, count, shortened)
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
