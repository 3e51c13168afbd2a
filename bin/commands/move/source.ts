/** The source of a move: its requirements, its publication and its slot. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Client, escapeIdentifier, escapeLiteral } from 'pg'
import { ownSchema, tableName, userTables } from '../../../instance/import/catalog.ts'
import type { Endpoint } from '../../../instance/import/contract.ts'
import { openReplication, queryValue, withSession } from './endpoints.ts'
import { names, type TableName } from './state.ts'

type Requirements = {
  version: number
  walLevel: string
  unlogged: TableName[]
  withoutIdentity: TableName[]
  largeObjects: number
}

/** The first version whose publications include TRUNCATE. */
const oldestSource = 11

const list = (
  condition: string,
) => `(SELECT coalesce(jsonb_agg(jsonb_build_object('schema', n.nspname, 'name', c.relname)
  ORDER BY n.nspname, c.relname), '[]') ${userTables} AND n.nspname <> '${ownSchema}' AND ${condition})`

/** A deferrable primary key does not identify rows for replication. */
const hasIdentity = `(c.relreplident = 'f' OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid
  AND CASE c.relreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident ELSE false END))`

const requirementsQuery = `SELECT jsonb_build_object(
  'version', current_setting('server_version_num')::int / 10000,
  'walLevel', current_setting('wal_level'),
  'unlogged', ${list("c.relpersistence = 'u'")},
  'withoutIdentity', ${list(`c.relpersistence = 'p' AND NOT ${hasIdentity}`)},
  'largeObjects', (SELECT count(*) FROM pg_largeobject_metadata))`

export const tablesOf = (client: Client): Promise<TableName[]> =>
  queryValue(client, `SELECT ${list("c.relpersistence = 'p'")}`)

/** Returns the reasons why `follow` cannot use this source. Pure. */
export function refusals({ version, walLevel, unlogged, withoutIdentity, largeObjects }: Requirements): string[] {
  return [
    ...(version < oldestSource
      ? [`the source is Postgres ${version}: the oldest that can be followed is ${oldestSource}`]
      : []),
    ...(walLevel === 'logical'
      ? []
      : [`the source has wal_level = ${walLevel}: set it to "logical" and restart the source`]),
    ...(withoutIdentity.length === 0
      ? []
      : [
          `tables without a replica identity: ${names(withoutIdentity)}: add a primary key, or run ALTER TABLE ... REPLICA IDENTITY FULL on the source`,
        ]),
    ...(unlogged.length === 0
      ? []
      : [`unlogged tables: ${names(unlogged)}: run ALTER TABLE ... SET LOGGED on the source, or drop them`]),
    ...(Number(largeObjects) === 0
      ? []
      : [
          `${largeObjects} large objects, whose changes Postgres does not decode: import this database with its writers stopped`,
        ]),
  ]
}

/** @throws Error that names everything that must change on the source */
export async function checkSource(client: Client): Promise<void> {
  const found = refusals(await queryValue<Requirements>(client, requirementsQuery))
  if (found.length > 0) throw new Error(found.join('; '))
}

/** Creates a publication of these tables. FOR ALL TABLES requires a superuser, and includes tables of extensions. */
export async function createPublication(client: Client, name: string, tables: readonly TableName[]): Promise<void> {
  const listed = tables.length === 0 ? '' : ` FOR TABLE ONLY ${tables.map(tableName).join(', ONLY ')}`
  await client.query(`CREATE PUBLICATION ${escapeIdentifier(name)}${listed}`)
}

/**
 * Creates the slot. Returns its position and a snapshot at that position. The snapshot is valid until the connection
 * runs another command or ends.
 */
export async function createSlot(source: Endpoint, name: string, signal: AbortSignal) {
  const connection = await openReplication(source)
  signal.addEventListener('abort', () => connection.connection.stream.destroy(), { once: true })
  try {
    const { rows } = await connection.query(`CREATE_REPLICATION_SLOT ${escapeIdentifier(name)} LOGICAL pgoutput`)
    const { consistent_point: position, snapshot_name: snapshot } = rows[0]
    return { position: String(position), snapshot: String(snapshot), connection }
  } catch (error) {
    await connection.end().catch(() => {})
    throw error
  }
}

const endsMs = 20_000

/** Drops the slot and the publication if they exist. The server may need some time to end the slot's connection. */
export async function dropSlot(source: Endpoint, name: string): Promise<void> {
  const slot = `FROM pg_replication_slots WHERE slot_name = ${escapeLiteral(name)}`
  try {
    await withSession(source, async client => {
      const deadline = Date.now() + endsMs
      while (
        (await queryValue<string>(client, `SELECT count(*) ${slot} AND active`)) !== '0' &&
        Date.now() < deadline
      ) {
        await client.query(`SELECT pg_terminate_backend(active_pid) ${slot} AND active`)
        await delay(200)
      }
      await client.query(`SELECT pg_drop_replication_slot(slot_name) ${slot}`)
      await client.query(`DROP PUBLICATION IF EXISTS ${escapeIdentifier(name)}`)
    })
  } catch (error) {
    throw new Error(
      `the slot and the publication ${name} on the source could not be dropped (${error instanceof Error ? error.message : String(error)}). The slot retains WAL until the source's disk is full. Run "espalier move cancel", or on the source: SELECT pg_drop_replication_slot('${name}'); DROP PUBLICATION ${name};`,
    )
  }
}
