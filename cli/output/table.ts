/** Formats tables and pairs as text, and escapes the cells, so that callers do not have to escape them. Pure. */
import { escapeControls } from '../../values/escape.ts'

export type Column<T> = {
  title: string
  /** Undefined and an empty text are shown as `-`. */
  value: (item: T) => string | number | undefined | null
  align?: 'left' | 'right'
}
/** Colours the text of a cell; without colours, returns it unchanged. */
export type Paint = (text: string, column: string) => string

const plain: Paint = text => text
/** A cell longer than this is cut, except in the last column. */
const longest = 60

const shown = (value: string | number | undefined | null): string => {
  const text = value === undefined || value === null || value === '' ? '-' : String(value)
  return escapeControls(text)
}

/** Returns the number of code points, which approximates the width on a terminal. */
const widthOf = (text: string): number => [...text].length
const cut = (text: string): string => (widthOf(text) <= longest ? text : `${[...text].slice(0, longest - 1).join('')}…`)

/** Formats aligned columns under titles, without trailing spaces. */
export function table<T>(items: readonly T[], columns: readonly Column<T>[], paint: Paint = plain): string {
  const last = columns.length - 1
  const rows = items.map(item =>
    columns.map(({ value }, at) => (at === last ? shown(value(item)) : cut(shown(value(item))))),
  )
  const widths = columns.map(({ title }, at) =>
    Math.max(widthOf(title), ...rows.map(row => (at === last && row[at] !== undefined ? 0 : widthOf(row[at] ?? '')))),
  )
  const line = (cells: readonly string[], painted: (text: string, at: number) => string) =>
    cells
      .map((cell, at) => {
        const space = ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(cell)))
        const right = columns[at]?.align === 'right'
        if (at === last && !right) return painted(cell, at)
        return right ? `${space}${painted(cell, at)}` : `${painted(cell, at)}${space}`
      })
      .join('  ')
  const head = line(
    columns.map(({ title }) => title),
    text => paint(text, 'title'),
  )
  return [head, ...rows.map(row => line(row, (text, at) => paint(text, columns[at]?.title ?? '')))].join('\n')
}

/** Formats one line for each pair, with aligned values. Omits pairs without a value. */
export function pairs(
  entries: readonly (readonly [string, string | number | undefined | null])[],
  paint: Paint = plain,
): string {
  const present = entries.filter(([, value]) => value !== undefined && value !== null && value !== '')
  const width = Math.max(0, ...present.map(([name]) => name.length))
  return present.map(([name, value]) => `${name.padEnd(width)}  ${paint(shown(value), name.toUpperCase())}`).join('\n')
}
