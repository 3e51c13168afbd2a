/** Prints results as text, as JSON (`--json`), or as names only (`--quiet`). */

import { escapeControls, escapeLines, printedJson } from '../../values/escape.ts'
import { type Io, styleOf } from '../io.ts'
import { type Column, type Paint, pairs, table } from './table.ts'

type Format = 'text' | 'json' | 'quiet'

const good = new Set(['available', 'completed', 'succeeded', 'running'])
const bad = new Set(['failed', 'degraded', 'ERROR', 'FATAL', 'PANIC'])

export type Printer = {
  format: Format
  /** Prints a list. Without items, prints `empty` on standard error instead of a table. */
  list<T>(items: readonly T[], columns: readonly Column<T>[], nameOf: (item: T) => string, empty: string): void
  one(object: object, name: string, entries: readonly (readonly [string, string | number | undefined | null])[]): void
  /** Prints the result of a change: a sentence, JSON, or the name. Without `object`, the JSON has only the name. */
  done(sentence: string, name: string, object?: object): void
  /** Prints a line unchanged, with its colours. The caller escapes it. */
  line(text: string): void
  /** Prints a message on standard error. Prints nothing with `--quiet`. */
  note(text: string): void
}

function paintFor(io: Io): Paint {
  const style = styleOf(io, io.output)
  return (text, column) => {
    if (column === 'title') return style('bold', text)
    if (!/^(STATUS|STATE|LEVEL)$/.test(column)) return text
    if (good.has(text)) return style('green', text)
    return bad.has(text) ? style('red', text) : style('yellow', text)
  }
}

export function createPrinter(io: Io, format: Format): Printer {
  const write = (text: string) => io.output.write(`${text}\n`)
  const note = (text: string) => {
    if (format !== 'quiet') io.errors.write(`${escapeLines(text)}\n`)
  }
  return {
    format,
    list(items, columns, nameOf, empty) {
      if (format === 'json') write(printedJson(items, 2))
      else if (format === 'quiet') for (const item of items) write(escapeControls(nameOf(item)))
      else if (items.length === 0) note(empty)
      else write(table(items, columns, paintFor(io)))
    },
    one(object, name, entries) {
      if (format === 'json') write(printedJson(object, 2))
      else write(format === 'quiet' ? escapeControls(name) : pairs(entries, paintFor(io)))
    },
    done(sentence, name, object) {
      if (format === 'json') write(printedJson(object ?? { name }, 2))
      else write(format === 'quiet' ? escapeControls(name) : escapeLines(sentence))
    },
    line: write,
    note,
  }
}
