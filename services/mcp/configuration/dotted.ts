/**
 * Reads names with dots. In every table of a file, `http.enabled: true` is the same as `enabled: true` in the table
 * `http`.
 */
import { type Document, isTable, type Table } from '../../configuration/document.ts'

/** No known key has more parts. A longer name stays unchanged and is reported as unknown. */
const mostParts = 8

const isNull = (value: unknown): boolean => value === undefined || value === null

/** Adds a value. If a key has two values, the later value counts, unless it is null. */
function add(table: Map<string, unknown>, [name = '', ...rest]: readonly string[], value: unknown): void {
  const before = table.get(name)
  if (rest.length === 0 && !isTable(value)) {
    if (isNull(before) || !isNull(value)) table.set(name, value)
    return
  }
  // If a key is both a value and a table, it is reported as unknown.
  if (!isNull(before) && !(before instanceof Map)) return void table.set([name, ...rest, ''].join('.'), value)
  const inner = before instanceof Map ? before : new Map<string, unknown>()
  table.set(name, inner)
  if (rest.length > 0) add(inner, rest, value)
  else addAll(inner, value)
}

function addAll(table: Map<string, unknown>, from: unknown): void {
  for (const [name, value] of Object.entries(isTable(from) ? from : {})) {
    const parts = name.split('.')
    add(table, parts.length > mostParts ? [name] : parts, value)
  }
}

function plain(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, inner]) => [name, plain(inner)]))
  if (Array.isArray(value)) return value.map(one => (isTable(one) ? withTables(one) : one))
  return value
}

function withTables(table: Table): Table {
  const all = new Map<string, unknown>()
  addAll(all, table)
  return Object.fromEntries([...all].map(([name, value]) => [name, plain(value)]))
}

/** Line numbers remain correct, because both spellings of a key have the same name. */
export const withoutDots = (document: Document): Document => ({ ...document, root: withTables(document.root) })
