/**
 * The record of a move, in a schema of the target: each transaction of the source is applied together with its position
 * there, so none is lost or applied twice. It also names the slot, so that no slot is forgotten on the source.
 */
import { randomBytes } from 'node:crypto'
import { type Client, escapeLiteral } from 'pg'
import { tableName } from '../../../instance/import/catalog.ts'
import { positionText } from './pgoutput.ts'

export type TableName = { schema: string; name: string }
export type MoveState = {
  /** Of the slot and the publication on the source. */
  name: string
  /** `done`: the target has everything; only the slot and the publication have to be dropped. */
  phase: 'copying' | 'following' | 'done'
  /** Empty until the copy is complete. */
  position: string
  tables: TableName[]
  /** Foreign keys whose rows are checked at the end. */
  keys: { table: string; name: string }[]
}

const schema = 'espalier_move'
const table = `${schema}.state`
/** Only one command at a time works on a move. */
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

/** The session of a command that lost its connection may hold the lock for some time, too. */
export class LockedError extends Error {
  override readonly name = 'LockedError'
}

/** Held until the session ends. @throws LockedError if another command holds it */
export async function lockMove(client: Client): Promise<void> {
  const { rows } = await client.query(`SELECT pg_try_advisory_lock(${lockKey}) AS locked`)
  if (rows[0]?.locked !== true)
    throw new LockedError(
      'another "espalier move" works on this database: stop it first (it continues where it stopped)',
    )
}

export const names = (tables: readonly TableName[], most = 5): string =>
  tables.length <= most
    ? tables.map(tableName).join(', ')
    : `${tables.slice(0, most).map(tableName).join(', ')} and ${tables.length - most} more`
