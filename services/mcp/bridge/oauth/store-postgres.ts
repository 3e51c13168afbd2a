/** The state in a table of Postgres, for several bridges that are one to their clients. */
import pg from 'pg'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { RawStore } from './records.ts'

const mostConnections = 5
const rows = z.array(z.object({ value: z.string(), uses: z.number() }))

/** @throws what connecting, or making the table, fails with */
export async function openPostgresStore(uri: string, logger: Logger): Promise<RawStore> {
  const pool = new pg.Pool({
    connectionString: uri,
    max: mostConnections,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 10_000,
    application_name: 'espalier-mcp-bridge',
  })
  // Of a connection that is idle; who asks next gets another.
  pool.on('error', error =>
    logger.warn({ code: 'code' in error ? error.code : undefined }, 'the state lost a connection'),
  )
  const one = async (sql: string, values: readonly (string | number)[]) => {
    const [row] = rows.parse((await pool.query(sql, [...values])).rows)
    return row
  }
  const changed = async (sql: string, values: readonly (string | number)[]) =>
    ((await pool.query(sql, [...values])).rowCount ?? 0) === 1
  await pool
    .query(
      `CREATE TABLE IF NOT EXISTS espalier_oauth_records (
         kind text NOT NULL, key text NOT NULL, value text NOT NULL, uses integer NOT NULL DEFAULT 0,
         expires_at bigint NOT NULL, owner text NOT NULL DEFAULT '', PRIMARY KEY (kind, key));
       -- Tables of before have no such column; bridges of before, beside this one, leave it as it is.
       ALTER TABLE espalier_oauth_records ADD COLUMN IF NOT EXISTS owner text NOT NULL DEFAULT '';
       CREATE INDEX IF NOT EXISTS espalier_oauth_records_expiry ON espalier_oauth_records (expires_at);
       CREATE INDEX IF NOT EXISTS espalier_oauth_records_owner ON espalier_oauth_records (kind, owner, expires_at)`,
    )
    .catch(async (error: unknown) => {
      await pool.end()
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
      await pool.query(`DELETE FROM ${table} WHERE kind = $1 AND key IN (${older})`, [kind, owner, before, most])
    },
    takeFromLargest: async (kind, number, before) => {
      const places = `SELECT key, expires_at, row_number() OVER (PARTITION BY owner ORDER BY expires_at DESC, key) AS place
        FROM ${table} WHERE kind = $1 AND expires_at <= $2`
      const chosen = `SELECT key FROM (${places}) AS placed ORDER BY place DESC, expires_at LIMIT $3`
      await pool.query(`DELETE FROM ${table} WHERE kind = $1 AND key IN (${chosen})`, [kind, before, number])
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
    sweep: async now => void (await pool.query(`DELETE FROM ${table} WHERE expires_at <= $1`, [now])),
    close: () => pool.end(),
  }
}
