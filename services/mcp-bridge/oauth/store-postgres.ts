/** State in a Postgres table, for several replicas of the bridge. */
import type { Address } from '../../postgres/address.ts'
import { OwnTables } from '../../postgres/own-tables.ts'
import type { Row } from '../../postgres/run.ts'
import type { RawStore } from './records.ts'

const mostConnections = 5

const definitions = [
  `CREATE TABLE IF NOT EXISTS espalier_oauth_records (
     kind text NOT NULL, key text NOT NULL, value text NOT NULL, uses integer NOT NULL DEFAULT 0,
     expires_at bigint NOT NULL, owner text NOT NULL DEFAULT '', PRIMARY KEY (kind, key))`,
  // Tables of older versions lack this column. Older bridges that run at the same time ignore it.
  "ALTER TABLE espalier_oauth_records ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT ''",
  'CREATE INDEX IF NOT EXISTS espalier_oauth_records_expiry ON espalier_oauth_records (expires_at)',
  'CREATE INDEX IF NOT EXISTS espalier_oauth_records_owner ON espalier_oauth_records (kind, owner, expires_at)',
]

type Values = readonly (string | number)[]

/** @throws errors of connecting or creating the table */
export async function openPostgresStore(address: Address): Promise<RawStore> {
  const tables = new OwnTables({ address, applicationName: 'espalier-mcp-bridge', definitions, size: mostConnections })
  const query = (text: string, values: Values) => tables.run({ text, values })
  const one = async (sql: string, values: Values) => {
    const [row] = (await query(sql, values)).rows
    return row && recordOf(row)
  }
  const changed = async (sql: string, values: Values) => (await query(sql, values)).affected === 1
  await tables.create().catch((error: unknown) => {
    tables.close()
    throw error
  })
  const table = 'espalier_oauth_records'
  const here = 'kind = $1 AND key = $2 AND expires_at > $3'
  return {
    insert: (kind, key, value, expiresAt, owner) => {
      const columns = '(kind, key, value, expires_at, owner)'
      const sql = `INSERT INTO ${table} ${columns} VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
      return changed(sql, [kind, key, value, expiresAt, owner])
    },
    keepNewest: async (kind, owner, most, before) => {
      const older = `SELECT key FROM ${table} WHERE kind = $1 AND owner = $2 AND expires_at <= $3
        ORDER BY expires_at DESC, key OFFSET $4`
      await query(`DELETE FROM ${table} WHERE kind = $1 AND key IN (${older})`, [kind, owner, before, most])
    },
    takeFromLargest: async (kind, number, before) => {
      const ranked = `SELECT key, expires_at, row_number() OVER (PARTITION BY owner ORDER BY expires_at DESC, key) AS place
        FROM ${table} WHERE kind = $1 AND expires_at <= $2`
      const chosen = `SELECT key FROM (${ranked}) AS placed ORDER BY place DESC, expires_at LIMIT $3`
      await query(`DELETE FROM ${table} WHERE kind = $1 AND key IN (${chosen})`, [kind, before, number])
    },
    get: async (...at) => (await one(`SELECT value, uses FROM ${table} WHERE ${here}`, at))?.value,
    use: (...at) => one(`UPDATE ${table} SET uses = uses + 1 WHERE ${here} RETURNING value, uses`, at),
    take: async (...at) => (await one(`DELETE FROM ${table} WHERE ${here} RETURNING value, uses`, at))?.value,
    extend: (kind, key, expiresAt, now) =>
      changed(`UPDATE ${table} SET expires_at = $4 WHERE ${here}`, [kind, key, now, expiresAt]),
    count: async (kind, now) => {
      const sql = `SELECT '' AS value, count(*)::integer AS uses FROM ${table} WHERE kind = $1 AND expires_at > $2`
      return (await one(sql, [kind, now]))?.uses ?? 0
    },
    sweep: async now => void (await query(`DELETE FROM ${table} WHERE expires_at <= $1`, [now])),
    close: async () => tables.close(),
  }
}

/** Reads the columns `value, uses`. */
const recordOf = ([value, uses]: Row): { value: string; uses: number } => ({
  value: value?.toString() ?? '',
  uses: Number(uses?.toString()),
})
