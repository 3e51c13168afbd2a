/** Builds the statement that repeats a change of the source on the target. Pure. */
import { escapeIdentifier, escapeLiteral } from 'pg'
import type { Change, Column, Relation, Row } from './pgoutput.ts'

export type Statement = {
  sql: string
  /** The number of rows that it must change; undefined if any number is correct. */
  changes: number | undefined
  table: string
  /** The SQL of an insertion is `head` and `rows`. Insertions with the same `head` become one statement. */
  head?: string
  rows?: string
}

/** Built-in types without an operator `=`, or whose `=` compares areas: json, xml and geometric types. */
const withoutEquality = new Set([114, 142, 600, 601, 602, 603, 604, 628, 718])
const firstCustomType = 10_000

const nameOf = ({ schema, name }: Relation): string => `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`
const literal = (value: string | null): string => (value === null ? 'NULL' : escapeLiteral(value))

/**
 * Returns the conditions that a column has this value. `isExact` also compares the text, because equal values can have
 * different texts, such as 1.0 and 1.00. The comparison with `=` remains, because it can use an index.
 */
function equals({ name, type }: Column, value: string | null, isExact: boolean): string[] {
  const column = escapeIdentifier(name)
  if (value === null) return [`${column} IS NULL`]
  const isEqual = `${column} = ${literal(value)}`
  if (!isExact) return [isEqual]
  const hasEquality = type < firstCustomType && !withoutEquality.has(type)
  return [...(hasEquality ? [isEqual] : []), `format('%s', ${column}) = ${literal(value)}`]
}

/** Returns the condition that selects the row. In a table without a key, it selects only one of several equal rows. */
function condition(relation: Relation, row: Row): string {
  const columns = relation.columns.flatMap((column, index) => {
    const value = row[index]
    return value !== undefined && (relation.hasFullIdentity || column.isKey)
      ? equals(column, value, relation.hasFullIdentity)
      : []
  })
  if (columns.length === 0) throw new Error(`the table ${nameOf(relation)} has no replica identity`)
  const where = columns.join(' AND ')
  return relation.hasFullIdentity ? `ctid = (SELECT ctid FROM ONLY ${nameOf(relation)} WHERE ${where} LIMIT 1)` : where
}

function insertion(relation: Relation, row: Row): Statement {
  const table = nameOf(relation)
  const values = row.flatMap(value => (value === undefined ? [] : [literal(value)]))
  const columns = relation.columns.flatMap(({ name }, index) =>
    row[index] === undefined ? [] : [escapeIdentifier(name)],
  )
  if (columns.length === 0) return { sql: `INSERT INTO ${table} DEFAULT VALUES`, changes: 1, table }
  const head = `INSERT INTO ${table} (${columns.join(', ')}) OVERRIDING SYSTEM VALUE VALUES `
  const rows = `(${values.join(', ')})`
  return { sql: head + rows, changes: 1, table, head, rows }
}

/** Returns an UPDATE of the changed columns only: an UPDATE cannot set a GENERATED ALWAYS identity column. */
function update(relation: Relation, old: Row | undefined, row: Row): string | undefined {
  const set = relation.columns.flatMap(({ name, isKey }, index) => {
    const value = row[index]
    const isKnown = old !== undefined && (isKey || relation.hasFullIdentity)
    const before = isKnown ? old[index] : undefined
    const isSame = isKnown ? before !== undefined && before === value : isKey
    return value === undefined || isSame ? [] : [`${escapeIdentifier(name)} = ${literal(value)}`]
  })
  if (set.length === 0) return undefined
  return `UPDATE ONLY ${nameOf(relation)} SET ${set.join(', ')} WHERE ${condition(relation, old ?? row)}`
}

/** Returns the statement for the change. Returns undefined if the target needs no change. */
export function statementOf(change: Change, relationOf: (id: number) => Relation): Statement | undefined {
  if (change.kind === 'truncate') {
    const tables = change.relations.map(id => nameOf(relationOf(id)))
    const restart = change.restartsIdentity ? ' RESTART IDENTITY' : ''
    const sql = `TRUNCATE ${tables.map(table => `ONLY ${table}`).join(', ')}${restart}`
    return { sql, changes: undefined, table: tables.join(', ') }
  }
  const relation = relationOf(change.relation)
  const table = nameOf(relation)
  if (change.kind === 'insert') return insertion(relation, change.row)
  if (change.kind === 'delete')
    return {
      sql: `DELETE FROM ONLY ${table} WHERE ${condition(relation, change.old)}`,
      changes: 1,
      table,
    }
  const sql = update(relation, change.old, change.row)
  return sql === undefined ? undefined : { sql, changes: 1, table }
}
