/** State in a SQLite file, for a single bridge. */
import { chmodSync, closeSync, openSync } from 'node:fs'
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import type { RawStore } from './records.ts'

/** The text of a column that is NOT NULL. */
const text = (value: SQLOutputValue | undefined) => (typeof value === 'string' ? value : undefined)

/** @throws errors of opening the file */
export function openSqliteStore(path: string): RawStore {
  if (path !== ':memory:') {
    closeSync(openSync(path, 'a', 0o600))
    chmodSync(path, 0o600)
  }
  const database = new DatabaseSync(path)
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
    CREATE TABLE IF NOT EXISTS oauth_records (
      kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, uses INTEGER NOT NULL DEFAULT 0,
      expires_at INTEGER NOT NULL, owner TEXT NOT NULL DEFAULT '', PRIMARY KEY (kind, key)) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS oauth_records_expiry ON oauth_records (expires_at)`)
  // Files of older versions lack this column.
  const columns = database.prepare('PRAGMA table_info(oauth_records)').all()
  if (!columns.some(({ name }) => name === 'owner'))
    database.exec(`ALTER TABLE oauth_records ADD COLUMN owner TEXT NOT NULL DEFAULT ''`)
  database.exec('CREATE INDEX IF NOT EXISTS oauth_records_owner ON oauth_records (kind, owner, expires_at)')
  /**
   * A connection for records that unauthenticated clients can create. A power failure may lose such records. So their
   * writes need not wait for the disk, which would block all other requests.
   */
  const quick = path === ':memory:' ? database : new DatabaseSync(path)
  quick.exec('PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000')
  const here = 'kind = ? AND key = ? AND expires_at > ?'
  const inserting =
    'INSERT INTO oauth_records (kind, key, value, expires_at, owner) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING'
  const insert = database.prepare(inserting)
  const insertQuickly = quick.prepare(inserting)
  const keepNewest = quick.prepare(`DELETE FROM oauth_records WHERE kind = ? AND key IN (
    SELECT key FROM oauth_records WHERE kind = ? AND owner = ? AND expires_at <= ?
    ORDER BY expires_at DESC, key LIMIT -1 OFFSET ?)`)
  const takeFromLargest = quick.prepare(`DELETE FROM oauth_records WHERE kind = ? AND key IN (
    SELECT key FROM (
      SELECT key, expires_at, row_number() OVER (PARTITION BY owner ORDER BY expires_at DESC, key) AS place
      FROM oauth_records WHERE kind = ? AND expires_at <= ?)
    ORDER BY place DESC, expires_at LIMIT ?)`)
  const get = database.prepare(`SELECT value FROM oauth_records WHERE ${here}`)
  const use = database.prepare(`UPDATE oauth_records SET uses = uses + 1 WHERE ${here} RETURNING value, uses`)
  const take = database.prepare(`DELETE FROM oauth_records WHERE ${here} RETURNING value`)
  const extend = database.prepare(`UPDATE oauth_records SET expires_at = ? WHERE ${here}`)
  const count = database.prepare('SELECT count(*) AS n FROM oauth_records WHERE kind = ? AND expires_at > ?')
  const sweep = database.prepare('DELETE FROM oauth_records WHERE expires_at <= ?')
  return {
    insert: async (kind, key, value, expiresAt, owner) =>
      (owner === '' ? insert : insertQuickly).run(kind, key, value, expiresAt, owner).changes === 1,
    keepNewest: async (kind, owner, most, before) => void keepNewest.run(kind, kind, owner, before, most),
    takeFromLargest: async (kind, number, before) => void takeFromLargest.run(kind, kind, before, number),
    get: async (kind, key, now) => text(get.get(kind, key, now)?.value),
    use: async (kind, key, now) => {
      const row = use.get(kind, key, now)
      const value = text(row?.value)
      return value === undefined ? undefined : { value, uses: Number(row?.uses) }
    },
    take: async (kind, key, now) => text(take.get(kind, key, now)?.value),
    extend: async (kind, key, expiresAt, now) => extend.run(expiresAt, kind, key, now).changes === 1,
    count: async (kind, now) => Number(count.get(kind, now)?.n),
    sweep: async now => void sweep.run(now),
    close: async () => {
      if (quick !== database) quick.close()
      database.close()
    },
  }
}
