/**
 * Rows as a model reads them: a header, then one line for each row, columns apart by tabs, in the text form of COPY: `\N` is NULL and an empty string is empty; tabs, line ends and backslashes
 * in values are escaped, so that a line is a row. Wide values are shortened, and lines end where the tokens do.
 */
import { atMostTokens } from './tokens.ts'

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
const escaped = (text: string): string =>
  text.replace(/[\\\b\f\n\r\t\v]/g, character => escapes[character] ?? character)

/** So much of a value is shown at least, and so much at most, in characters. */
const narrowest = 200
const widest = 2_000
/** Less says nothing. */
const leastWidth = 8

/** In characters, without half of one. */
const cut = (text: string, length: number): string => text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')

type Shown = { readonly text: string; readonly isShortened: boolean }

function cellText(cell: Cell, width: number): Shown {
  if (cell === null) return { text: '\\N', isShortened: false }
  if (cell.length <= width) return { text: escaped(cell), isShortened: false }
  const kept = cut(cell, width)
  return { text: `${escaped(kept)}…[+${cell.length - kept.length} characters]`, isShortened: true }
}

/** One row alone may be as wide as there is room for. */
const widthFor = (rows: number, columns: number, tokens: number): number =>
  Math.max(
    narrowest,
    rows === 1
      ? Math.floor(tokens / Math.max(1, columns))
      : Math.min(widest, Math.floor(tokens / (4 * Math.max(1, columns)))),
  )

type Line = { readonly text: string; readonly tokens: number; readonly shortened: readonly number[] }

function lineOf(cells: readonly Cell[], width: number): Line {
  const shown = cells.map(cell => cellText(cell, width))
  const text = shown.map(cell => cell.text).join('\t')
  const shortened = shown.flatMap(({ isShortened }, index) => (isShortened ? [index] : []))
  return { text, tokens: atMostTokens(text) + 1, shortened }
}

/** Names of columns are short, but for those that were made to be long. */
const headerOf = (columns: readonly string[], width: number): Line => lineOf(columns, Math.min(narrowest, width))

type Shape = { readonly width: number; readonly columns: number }

/** How wide values may be so that the header and the first row fit; where they cannot, how many columns do. */
function shapeFor(columns: readonly string[], first: readonly Cell[], rows: number, tokens: number): Shape {
  let shape: Shape = { width: widthFor(rows, columns.length, tokens), columns: columns.length }
  const isTooLarge = ({ width, columns: count }: Shape) =>
    headerOf(columns.slice(0, count), width).tokens + lineOf(first.slice(0, count), width).tokens > tokens
  while (isTooLarge(shape) && (shape.width > leastWidth || shape.columns > 1)) {
    const { width, columns: count } = shape
    shape =
      width > leastWidth
        ? { width: Math.max(leastWidth, Math.floor(width / 2)), columns: count }
        : { width, columns: Math.ceil(count / 2) }
  }
  return shape
}

/** As many rows as have room in so many tokens. */
export function tableText(columns: readonly string[], rows: readonly (readonly Cell[])[], tokens: number): Table {
  const [first = []] = rows
  const { width, columns: count } = shapeFor(columns, first, rows.length, tokens)
  const header = headerOf(columns.slice(0, count), width)
  const lines = [header.text]
  const shortened = new Set<number>()
  let left = tokens - header.tokens
  for (const row of rows) {
    const line = lineOf(row.slice(0, count), width)
    if (line.tokens > left && lines.length > 1) break
    left -= line.tokens
    lines.push(line.text)
    for (const index of line.shortened) shortened.add(index)
  }
  return {
    text: lines.join('\n'),
    rows: lines.length - 1,
    columns: count,
    shortened: [...shortened].sort((a, b) => a - b),
  }
}
