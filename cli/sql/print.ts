/**
 * Prints rows as they arrive. A table first waits for up to 200 rows, which decide its widths. So memory does not
 * depend on the size of the result. Tables and JSON always escape control characters. The formats `csv` and `values`,
 * and COPY data, escape control characters only on a terminal.
 */

import { escapeControls, escapeLines, printedJson } from '../../values/escape.ts'
import { type Io, isTerminal, styleOf } from '../io.ts'

export type RowFormat = 'table' | 'csv' | 'json' | 'values'
type Row = readonly (string | null)[]
type Kind = 'number' | 'boolean' | 'json' | 'text'
export type Field = { name: string; kind: Kind }

export type RowPrinter = {
  begin(fields: readonly Field[]): void
  row(values: Row): void
  /** `tag`: Postgres's summary of the statement, such as `INSERT 0 2`. */
  end(tag: string, rows: number): void
  notice(text: string): void
  /** Data of COPY TO STDOUT: escaped on a terminal, otherwise unchanged. */
  copied(data: Buffer): void
  /** Whether the output buffer is full. */
  isFull(): boolean
  /** Resolves when the output accepts data again. */
  drained(): Promise<void>
}

/** The number of rows that decide the widths of a table. */
const sampled = 200

/** Formats a field of CSV (RFC 4180). NULL is an empty field, and an empty text has quotes. */
export function csvField(value: string | null): string {
  if (value === null) return ''
  return value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

/** Converts a value to JSON. A number that JavaScript would change, such as 1.50, is returned as a string. Pure. */
export function jsonValue(kind: Kind, value: string | null): unknown {
  if (value === null || kind === 'text') return value
  if (kind === 'boolean') return value === 't'
  if (kind === 'number')
    return String(Number(value)) === value && value !== 'NaN' && !/Infinity/.test(value) ? Number(value) : value
  return JSON.parse(value)
}

const widthOf = (text: string): number => [...text].length

export function createRowPrinter(io: Io, format: RowFormat): RowPrinter {
  const style = styleOf(io, io.output)
  const shown = (text: string) => (isTerminal(io.output) ? escapeControls(text) : text)
  let full = false
  const write = (text: string | Buffer) => {
    if (!io.output.write(text)) full = true
  }
  let fields: readonly Field[] = []
  let sample: Row[] = []
  let widths: number[] | undefined
  let count = 0

  const cellOf = (value: string | null) => (value === null ? '' : escapeControls(value))
  const line = (cells: readonly string[], painted = (text: string) => text) =>
    cells
      .map((cell, at) => {
        const space = ' '.repeat(Math.max(0, (widths?.[at] ?? 0) - widthOf(cell)))
        if (fields[at]?.kind === 'number') return space + painted(cell)
        return at === cells.length - 1 ? painted(cell) : painted(cell) + space
      })
      .join('  ')
  /** Computes the widths, and prints the header and the rows so far. */
  const startTable = () => {
    if (widths !== undefined || fields.length === 0) return
    widths = fields.map(({ name }, at) =>
      Math.max(widthOf(escapeControls(name)), ...sample.map(row => widthOf(cellOf(row[at] ?? null)))),
    )
    const header = fields.map(({ name }) => escapeControls(name))
    write(`${line(header, text => style('bold', text))}\n`)
    for (const row of sample) write(`${line(row.map(cellOf))}\n`)
    sample = []
  }

  const tableRow = (values: Row) => {
    if (widths !== undefined) return write(`${line(values.map(cellOf))}\n`)
    sample.push(values)
    if (sample.length === sampled) startTable()
  }
  const jsonRow = (values: Row) => {
    const object = Object.fromEntries(fields.map(({ name, kind }, at) => [name, jsonValue(kind, values[at] ?? null)]))
    write(`${printedJson(object)}\n`)
  }
  return {
    begin(next) {
      ;[fields, sample, widths, count] = [next, [], undefined, 0]
      if (format === 'csv' && fields.length > 0) write(`${fields.map(({ name }) => shown(csvField(name))).join(',')}\n`)
    },
    row(values) {
      count++
      if (format === 'table') tableRow(values)
      else if (format === 'json') jsonRow(values)
      else if (format === 'csv') write(`${values.map(value => shown(csvField(value))).join(',')}\n`)
      else write(`${values.map(value => shown(value ?? '')).join('\t')}\n`)
    },
    end(tag) {
      if (format !== 'table') return
      startTable()
      write(fields.length > 0 ? `(${count} ${count === 1 ? 'row' : 'rows'})\n` : `${escapeControls(tag)}\n`)
    },
    copied: data => write(isTerminal(io.output) ? escapeLines(data.toString()) : data),
    notice: text => io.errors.write(`${escapeControls(text)}\n`),
    isFull: () => full,
    async drained() {
      await new Promise<void>(resolve => io.output.once('drain', resolve))
      full = false
    },
  }
}
