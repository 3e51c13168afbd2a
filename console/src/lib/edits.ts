/**
 * Builds the SQL of staged row changes. An update or deletion must match exactly one row, in the version that the page
 * showed. Otherwise the statement fails, and Postgres rolls back the transaction. Pure.
 */
import type { SqlResult, Value } from './sql.ts'
import { quotedName, type Table, tableText } from './tables.ts'

/** Values by column name. */
type Values = ReadonlyMap<string, Value>
export type Edit = { id: string; table: Table } & (
  | { kind: 'insert'; values: Values }
  | { kind: 'update'; key: Values; version: string; values: Values }
  | { kind: 'delete'; key: Values; version: string }
)

/** The maximum length of the SQL text that the API accepts. */
export const longestText = 65_536

/** Returns an SQL literal that is correct for any setting of `standard_conforming_strings`. */
export function literal(value: Value): string {
  if (value === null) return 'NULL'
  const quoted = `'${value.replaceAll("'", "''")}'`
  return quoted.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

const named = (values: Values): [string, string][] =>
  [...values].map(([name, value]) => [quotedName(name), literal(value)])

/** If a statement changes no row or several rows, it fails. The Postgres error then contains this text. */
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

/** Returns one transaction with all changes, in the order in which the user staged them. */
export const transactionOf = (edits: readonly Edit[]): string =>
  ['BEGIN', ...edits.map(statementOf), 'COMMIT'].map(text => `${text};`).join('\n')

/** Returns the id of a row, from its table and its primary key. */
export const idOfRow = ({ schema, name }: Table, key: Values): string => JSON.stringify([schema, name, ...key])

/** Returns the primary key of a row. */
export const keyOf = ({ columns }: Table, row: readonly Value[]): Values =>
  new Map(columns.flatMap(({ name, isKey }, index) => (isKey ? [[name, row[index] ?? null] as const] : [])))

/** Returns the new value of a column. Returns undefined if the user did not change the value. */
export function changedValue(before: Value, entered: Value): Value | undefined {
  // A text field of the browser replaces \r\n by \n.
  const isUnchanged = entered === before || (entered !== null && entered === before?.replaceAll('\r\n', '\n'))
  if (isUnchanged) return undefined
  return entered !== null && before?.includes('\r\n') ? entered.replaceAll(/\r?\n/g, '\r\n') : entered
}

/** Adds a change. If the list has a change with the same id, the new change replaces it. */
export const withEdit = (edits: readonly Edit[], edit: Edit): readonly Edit[] =>
  edits.some(({ id }) => id === edit.id) ? edits.map(one => (one.id === edit.id ? edit : one)) : [...edits, edit]

export type Outcome =
  | { kind: 'committed' }
  /** Another session changed or deleted the row of the change at `index`. */
  | { kind: 'conflict'; index: number }
  | { kind: 'failed'; index: number; message: string; detail: string }
  /** The result of the commit is unknown. */
  | { kind: 'unknown' }

/** SQLSTATEs of a closed connection or a failed server. If COMMIT fails with one of these, the result is unknown. */
const lost = /^(08|57|58|XX)/

/**
 * Returns the outcome of a transaction that `transactionOf` built.
 * @param results the results of all statements; the first is the result of BEGIN
 * @param count the number of changes
 */
export function outcomeOf(results: readonly SqlResult[], count: number): Outcome {
  const failed = results.find(({ fault }) => fault !== undefined)
  if (failed?.fault !== undefined) {
    const { message, sqlstate, position, detail = '' } = failed.fault
    const index = failed.statement - 1
    // The error of `requireOne` has no position. An error about a value that the user entered has one.
    if (sqlstate === '22P02' && position === undefined && message.includes(`"${notOne}`))
      return { kind: 'conflict', index }
    if (index === count && lost.test(sqlstate)) return { kind: 'unknown' }
    return { kind: 'failed', index, message, detail }
  }
  const last = results.find(({ statement }) => statement === count + 1)?.complete
  return last?.command === 'COMMIT' ? { kind: 'committed' } : { kind: 'unknown' }
}
