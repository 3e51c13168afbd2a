/**
 * One connection pool for each configured database, with the shares of its callers. A pool is created at first use, and
 * created again after its settings change.
 */
import { AddressError, connectionAddress } from '../../postgres/address.ts'
import { Durations } from '../../postgres/durations.ts'
import { ConnectionFailure } from '../../postgres/errors.ts'
import { Pool } from '../../postgres/pool.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { createShares, type Shares } from './shares.ts'
import { createShortReads, type ShortReads } from './short-reads.ts'

type Shared = {
  readonly pool: Pool
  readonly shares: Shares
  readonly shortReads: ShortReads
  /** Statistics of callers' reads, by statement text. */
  readonly durations: Durations
}

export type Pools = {
  /** @throws ConnectionFailure if the settings are invalid */
  of(database: DatabaseSettings): Shared
  /** Opens the minimum connections of these databases. Other databases no longer keep minimum connections. */
  prepare(databases: readonly DatabaseSettings[]): void
  close(): void
}

/** Quotes a value in a libpq connection string. */
const quoted = (value: string): string => `'${value.replace(/['\\]/g, '\\$&')}'`

function connectionText(database: DatabaseSettings): string {
  const { host, port, user, password, sslmode, sslrootcert, sslcert, sslkey, channelBinding } = database
  const keywords = {
    host,
    port: String(port),
    dbname: database.database,
    user,
    password,
    sslmode,
    sslrootcert,
    sslcert,
    sslkey,
    channel_binding: channelBinding,
    connect_timeout: String(Math.max(1, Math.ceil(database.connectTimeoutMs / 1_000))),
    application_name: 'espalier-mcp',
  }
  return Object.entries(keywords)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${quoted(value)}`]))
    .join(' ')
}

function addressOf(database: DatabaseSettings) {
  try {
    // PGPASSFILE is the only environment variable that can supply missing settings.
    return connectionAddress(connectionText(database), { PGPASSFILE: process.env.PGPASSFILE })
  } catch (error) {
    if (error instanceof AddressError) throw new ConnectionFailure(`the settings of this database: ${error.message}`)
    throw error
  }
}

export function createPools(now: () => number): Pools {
  const pools = new Map<string, Shared & { database: DatabaseSettings; readonly settings: string }>()
  const own: Pools = {
    of: database => {
      const known = pools.get(database.name)
      // The settings of the last call. The same object needs no comparison of its contents.
      if (known?.database === database) return known
      const { poolSize, poolIdleMs, poolLifetimeMs, poolCheckMs } = database
      const settings = `${[poolSize, poolIdleMs, poolLifetimeMs, poolCheckMs].join(' ')} ${connectionText(database)}`
      if (known?.settings === settings) {
        known.database = database
        return known
      }
      known?.pool.close()
      const pool = new Pool(
        {
          address: addressOf(database),
          size: poolSize,
          acquisitionTimeoutMs: database.connectTimeoutMs,
          maximumLifetimeMs: poolLifetimeMs,
          maximumIdleMs: poolIdleMs,
          checkMs: poolCheckMs,
        },
        now,
      )
      const shares = createShares(poolSize, database.connectTimeoutMs)
      const shortReads = createShortReads(pool, shares)
      const made = { database, settings, pool, shares, shortReads, durations: new Durations() }
      pools.set(database.name, made)
      return made
    },
    prepare: databases => {
      for (const [name, { pool }] of pools) if (!databases.some(database => database.name === name)) pool.keep(0)
      for (const database of databases) {
        if (database.poolMinimum === 0 && !pools.has(database.name)) continue
        try {
          own.of(database).pool.keep(database.poolMinimum)
        } catch (error) {
          // The first call reports errors in the settings.
          if (!(error instanceof ConnectionFailure)) throw error
        }
      }
    },
    close: () => {
      for (const { pool } of pools.values()) pool.close()
      pools.clear()
    },
  }
  return own
}
