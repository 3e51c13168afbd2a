/**
 * The record of a move, in a schema of the target. The target commits each transaction of the source together with its
 * position in this record, so no transaction is lost or applied twice. The record also has the slot's name, so that a
 * later command can drop the slot on the source.
 */
import { randomBytes } from 'node:crypto'
import { type Client, escapeLiteral } from 'pg'
import { tableName } from '../../../instance/import/catalog.ts'
import { positionText } from './pgoutput.ts'

export type TableName = { schema: string; name: string }
export type MoveState = {
  /** The name of the slot and the publication on the source. */
  name: string
  /** `done`: the target is complete. `finish` still drops the slot and the publication, and validates foreign keys. */
  phase: 'copying' | 'following' | 'done'
  /** Empty until the copy is complete. */
  position: string
  tables: TableName[]
  /** Foreign keys whose existing rows `finish` still checks. */
  keys: { table: string; name: string }[]
}

const schema = 'espalier_move'
const table = `${schema}.state`
/** The key of the lock that allows only one command at a time. */
const lockKey = 7_238_001

export const newName = (): string => `espalier_move_${randomBytes(4).toString('hex')}`

export async function createState(client: Client, { name, tables }: Pick<MoveState, 'name' | 'tables'>): Promise<void> {
  await client.query(
    `CREATE SCHEMA ${schema}; CREATE TABLE ${table} (name text, phase text, position text, tables jsonb, keys jsonb);
    INSERT INTO ${table} VALUES (${escapeLiteral(name)}, 'copying', '', ${escapeLiteral(JSON.stringify(tables))}, '[]')`,
  )
}

export async function readState(client: Client): Promise<MoveState | undefined> {
  const { rows } = await client.query(`SELECT to_regclass('${table}') IS NOT NULL AS exists`)
  if (rows[0]?.exists !== true) return undefined
  const found = await client.query<MoveState>(`SELECT name, phase, position, tables, keys FROM ${table}`)
  return found.rows[0]
}

export const recordPosition = (position: bigint): string =>
  `UPDATE ${table} SET position = '${positionText(position)}', phase = 'following'`
export const recordDone = (keys: MoveState['keys']): string =>
  `UPDATE ${table} SET phase = 'done', keys = ${escapeLiteral(JSON.stringify(keys))}`
export const dropState = `DROP SCHEMA IF EXISTS ${schema} CASCADE`

/** Another session has the lock. This can also be the old session of a command that lost its connection. */
export class LockedError extends Error {
  override readonly name = 'LockedError'
}

/** Takes the lock until the session ends. @throws LockedError if another session has it */
export async function lockMove(client: Client): Promise<void> {
  const { rows } = await client.query(`SELECT pg_try_advisory_lock(${lockKey}) AS locked`)
  if (rows[0]?.locked !== true)
    throw new LockedError(
      'another "espalier move" runs on this database: stop it first. A later run continues its work',
    )
}

export const names = (tables: readonly TableName[], most = 5): string =>
  tables.length <= most
    ? tables.map(tableName).join(', ')
    : `${tables.slice(0, most).map(tableName).join(', ')} and ${tables.length - most} more`
