/**
 * Staged changes of rows as SQL. Each change must find exactly one row, of the version that was shown: otherwise its
 * statement fails, and nothing of the transaction is committed. Pure.
 */
import type { SqlResult, Value } from './sql.ts'
import { quotedName, type Table, tableText } from './tables.ts'

/** Values by the name of their column. */
type Values = ReadonlyMap<string, Value>
export type Edit = { id: string; table: Table } & (
  | { kind: 'insert'; values: Values }
  | { kind: 'update'; key: Values; version: string; values: Values }
  | { kind: 'delete'; key: Values; version: string }
)

/** The API accepts no longer text. */
export const longestText = 65_536

/** Correct for any setting of `standard_conforming_strings`. */
export function literal(value: Value): string {
  if (value === null) return 'NULL'
  const quoted = `'${value.replaceAll("'", "''")}'`
  return quoted.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

const named = (values: Values): [string, string][] =>
  [...values].map(([name, value]) => [quotedName(name), literal(value)])

/** With which a statement fails, in an error of Postgres, if it has not changed exactly one row. */
const notOne = 'not one row but '

const requireOne = (change: string): string => `WITH changed AS (
  ${change}
  RETURNING 1
)
SELECT CASE count(*) WHEN 1 THEN 1 ELSE ('${notOne}' || count(*))::int END FROM changed`

const conditionOf = (key: Values, version: string): string =>
  [...named(key).map(([name, value]) => `${name} = ${value}`), `xmin = ${literal(version)}`].join(' AND ')

export function statementOf(edit: Edit): string {
  const table = tableText(edit.table)
  if (edit.kind === 'delete') return requireOne(`DELETE FROM ${table}\n  WHERE ${conditionOf(edit.key, edit.version)}`)
  const values = named(edit.values)
  if (edit.kind === 'update') {
    const set = values.map(([name, value]) => `${name} = ${value}`).join(', ')
    return requireOne(`UPDATE ${table} SET ${set}\n  WHERE ${conditionOf(edit.key, edit.version)}`)
  }
  if (values.length === 0) return `INSERT INTO ${table} DEFAULT VALUES`
  const [names, texts] = [values.map(([name]) => name), values.map(([, value]) => value)]
  return `INSERT INTO ${table} (${names.join(', ')})\nVALUES (${texts.join(', ')})`
}

/** All changes, in the order in which they were staged. */
export const transactionOf = (edits: readonly Edit[]): string =>
  ['BEGIN', ...edits.map(statementOf), 'COMMIT'].map(text => `${text};`).join('\n')

/** The same row of the same table has the same id. */
export const idOfRow = ({ schema, name }: Table, key: Values): string => JSON.stringify([schema, name, ...key])

/** The primary key of a row. */
export const keyOf = ({ columns }: Table, row: readonly Value[]): Values =>
  new Map(columns.flatMap(({ name, isKey }, index) => (isKey ? [[name, row[index] ?? null] as const] : [])))

/** What was entered for a column of a row that is shown; undefined if that is its value. */
export function changedValue(before: Value, entered: Value): Value | undefined {
  // A text field changes the ends of lines to \n.
  const isShown = entered === before || (entered !== null && entered === before?.replaceAll('\r\n', '\n'))
  if (isShown) return undefined
  return entered !== null && before?.includes('\r\n') ? entered.replaceAll(/\r?\n/g, '\r\n') : entered
}

/** One change for each row: a later one replaces an earlier one. */
export const withEdit = (edits: readonly Edit[], edit: Edit): readonly Edit[] =>
  edits.some(({ id }) => id === edit.id) ? edits.map(one => (one.id === edit.id ? edit : one)) : [...edits, edit]

export type Outcome =
  | { kind: 'committed' }
  /** The change of this index found another version of its row, or none. */
  | { kind: 'conflict'; index: number }
  | { kind: 'failed'; index: number; message: string; detail: string }
  /** The answer ended before Postgres reported a result. */
  | { kind: 'unknown' }

/** SQLSTATEs of a connection or server that ended. While Postgres commits, they say nothing about the result. */
const lost = /^(08|57|58|XX)/

/** @param results of `transactionOf`, whose first statement is BEGIN */
export function outcomeOf(results: readonly SqlResult[], count: number): Outcome {
  const failed = results.find(({ fault }) => fault !== undefined)
  if (failed?.fault !== undefined) {
    const { message, sqlstate, position, detail = '' } = failed.fault
    const index = failed.statement - 1
    // A value that was entered fails with a position.
    if (sqlstate === '22P02' && position === undefined && message.includes(`"${notOne}`))
      return { kind: 'conflict', index }
    if (index === count && lost.test(sqlstate)) return { kind: 'unknown' }
    return { kind: 'failed', index, message, detail }
  }
  const last = results.find(({ statement }) => statement === count + 1)?.complete
  return last?.command === 'COMMIT' ? { kind: 'committed' } : { kind: 'unknown' }
}
