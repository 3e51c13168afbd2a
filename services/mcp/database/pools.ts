/** One pool of connections for each configured database, and the shares in it: made when it is first needed, and anew when its settings have changed. */
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
  /** Of callers' reads, by their texts. */
  readonly durations: Durations
}

export type Pools = {
  /** @throws ConnectionFailure where the settings are of no use */
  of(database: DatabaseSettings): Shared
  /** Opens what is to be kept open of these databases. Of any other nothing is kept from now on. */
  prepare(databases: readonly DatabaseSettings[]): void
  close(): void
}

/** As libpq writes keywords and values. */
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
    // What the settings leave out is nowhere else, but for the file of passwords.
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
      // The very settings of the last call, until they are read again: what they say need not be compared.
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
          // The first call reports what is wrong with the settings.
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
