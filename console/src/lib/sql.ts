/** Parses the response lines of POST .../sql into results, and exports results as CSV and JSON. Pure. */
import { formatJson } from './format-json.ts'

export type Column = { name: string; type: number }
export type Value = string | null
type Notice = { severity: string; message: string; detail?: string; hint?: string }
type SqlFault = { message: string; sqlstate: string; position?: number; detail?: string; hint?: string }

export type SqlResult = {
  statement: number
  columns: readonly Column[] | undefined
  rows: Value[][]
  notices: Notice[]
  complete: { command: string; rowCount: number; ms: number; more: boolean } | undefined
  fault: SqlFault | undefined
}

type Line = Record<string, unknown> & { type?: unknown; statement?: unknown }

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const optional = (line: Line, key: 'detail' | 'hint'): object =>
  typeof line[key] === 'string' ? { [key]: line[key] } : {}

const isRows = (value: unknown): value is Value[][] =>
  Array.isArray(value) &&
  value.every(row => Array.isArray(row) && row.every(field => field === null || typeof field === 'string'))

function columnsOf(value: unknown): Column[] {
  if (!Array.isArray(value)) return []
  return value.map((column: Line) => ({ name: textOf(column.name), type: Number(column.type) || 0 }))
}

/** Returns a list of results, and a function that adds a line. Results grow in place, as they can have many rows. */
export function createResults(): { results: SqlResult[]; apply: (line: unknown) => void } {
  const results: SqlResult[] = []
  const resultOf = (statement: number): SqlResult => {
    const found = results.find(result => result.statement === statement)
    if (found !== undefined) return found
    const created = { statement, columns: undefined, rows: [], notices: [], complete: undefined, fault: undefined }
    results.push(created)
    return created
  }
  const apply = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const line = value as Line
    const result = resultOf(Number(line.statement) || 0)
    if (line.type === 'columns') result.columns = columnsOf(line.columns)
    if (line.type === 'rows' && isRows(line.rows)) for (const row of line.rows) result.rows.push(row)
    if (line.type === 'notice')
      result.notices.push({
        ...{ severity: textOf(line.severity), message: textOf(line.message) },
        ...optional(line, 'detail'),
        ...optional(line, 'hint'),
      })
    if (line.type === 'complete') {
      const [rowCount, ms] = [Number(line.row_count) || 0, Number(line.ms) || 0]
      result.complete = { command: textOf(line.command), rowCount, ms, more: line.more === true }
    }
    if (line.type === 'error')
      result.fault = {
        ...{ message: textOf(line.message), sqlstate: textOf(line.sqlstate) },
        ...(typeof line.position === 'number' ? { position: line.position } : {}),
        ...optional(line, 'detail'),
        ...optional(line, 'hint'),
      }
  }
  return { results, apply }
}

/** Returns a parser of JSON lines. Each call takes a chunk and returns the completed lines. Skips invalid JSON. */
export function createLines(): (chunk: string) => unknown[] {
  let rest = ''
  return chunk => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    return lines.flatMap(line => {
      try {
        return line.trim() === '' ? [] : [JSON.parse(line)]
      } catch {
        return []
      }
    })
  }
}

const inCsv = (value: Value): string => {
  if (value === null) return ''
  // COPY reads an unquoted empty field as null, so an empty text is quoted.
  return value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

/** Returns CSV in the format of COPY ... WITH (FORMAT csv, HEADER). */
export function csvOf(columns: readonly Column[], rows: readonly Value[][]): string {
  const lines = [columns.map(({ name }) => inCsv(name)), ...rows.map(row => row.map(inCsv))]
  return `${lines.map(line => line.join(',')).join('\n')}\n`
}

/**
 * Functions that convert a value to JSON, by the OID of its type: boolean, smallint, integer, json and jsonb. Values of
 * other types are JSON strings, so that a bigint keeps all digits. Numbers in json and jsonb are copied as text for the
 * same reason.
 */
const literal: Record<number, (text: string) => string | undefined> = {
  16: text => String(text === 't'),
  21: text => text,
  23: text => text,
  114: text => formatJson(text, ''),
  3802: text => formatJson(text, ''),
}

const inJson = (value: Value, type: number): string =>
  value === null ? 'null' : (literal[type]?.(value) ?? JSON.stringify(value))

/** Returns a JSON array with one object per row. Adds a number to a repeated column name, for example `id_2`. */
export function jsonOf(columns: readonly Column[], rows: readonly Value[][]): string {
  const names: string[] = []
  for (const { name } of columns) {
    let unique = name
    for (let count = 2; names.includes(unique); count++) unique = `${name}_${count}`
    names.push(unique)
  }
  const keys = names.map(name => JSON.stringify(name))
  const objects = rows.map(row => {
    const members = keys.map((key, index) => `    ${key}: ${inJson(row[index] ?? null, columns[index]?.type ?? 0)}`)
    return `  {\n${members.join(',\n')}\n  }`
  })
  return objects.length === 0 ? '[]\n' : `[\n${objects.join(',\n')}\n]\n`
}

/**
 * Groups column names by table. Each row contains the name of a table and of a column. The result has no prototype,
 * because a table can have a name such as `constructor`.
 */
export function columnsByTable(rows: readonly (readonly Value[])[]): Record<string, string[]> {
  const tables: Record<string, string[]> = Object.create(null)
  for (const [table, column] of rows) {
    if (!table || !column) continue
    tables[table] ??= []
    tables[table].push(column)
  }
  return tables
}
