/**
 * Caches the catalogue data of users' databases. Cached data is at most about one second older than the catalogue:
 * before the server uses cached data, it compares a fingerprint of the catalogue. `metadata_ttl` limits the age of data
 * that the fingerprint does not cover, such as estimated row counts. The cache's memory is limited. The data depends on
 * the role that the server connects as, so it is the same for all callers of a database.
 */
import { LRUCache } from 'lru-cache'
import { type Version, versionOf, versionStatement } from '../../schema-cache/version.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { detailStatements, detailsOf, type RelationDetails } from './details.ts'
import { type Overview, overviewOf, overviewStatements, type Relation } from './relations.ts'

/** The database to read, and the call and the tool that read it. */
export type Reading = { readonly database: DatabaseSettings; readonly context: CallContext; readonly tool: string }

export type Catalogue = {
  /** Returns the same object while the catalogue is unchanged and nothing in it has expired. */
  overview(reading: Reading): Promise<Overview>
  details(reading: Reading, relations: readonly Relation[]): Promise<ReadonlyMap<string, RelationDetails>>
  /** Invalidates everything that was read before this call. */
  forget(database: DatabaseSettings): void
}

/** How long a fingerprint counts as current. The rest of the second is for reading and answering. */
const versionMs = 800

/** The maximum number of relations in all cached overviews; each takes about 300 bytes. */
const maximumCachedRelations = 100_000
/** The maximum number of columns, constraints and indexes in all cached details. */
const maximumCachedParts = 100_000
const mostDatabases = 1_000

const sizeOf = ({ columns, constraints, indexes, referencedBy }: RelationDetails) =>
  1 + columns.length + constraints.length + indexes.length + referencedBy.length

const keys = new WeakMap<DatabaseSettings, string>()

/** The key of a role of a database on a server. Results depend on nothing else. */
function keyOf(settings: DatabaseSettings): string {
  const { host, port, database, user } = settings
  const key = keys.get(settings) ?? JSON.stringify([host, port, database, user])
  keys.set(settings, key)
  return key
}

/** The time of a read's start, and the number of invalidations before it. */
type Begun = { readonly at: number; readonly changes: number }

type Running<T> = { readonly result: Promise<T>; readonly begun: Begun }

/** `number`: unique for each fingerprint. */
type Current = { readonly version: Version; readonly number: number; readonly begun: Begun }

export const createCatalogue = (access: DatabaseAccess, now: () => number): Catalogue =>
  new CachedCatalogue(access, now)

class CachedCatalogue implements Catalogue {
  readonly #access: DatabaseAccess
  readonly #now: () => number
  readonly #overviews = new LRUCache<string, { overview: Overview; number: number; begun: Begun }>({
    maxSize: maximumCachedRelations,
    sizeCalculation: ({ overview }) => 1 + overview.relations.length + overview.schemas.length,
  })
  readonly #details = new LRUCache<string, { details: RelationDetails; number: number; begun: Begun }>({
    maxSize: maximumCachedParts,
    sizeCalculation: ({ details }) => sizeOf(details),
  })
  readonly #versions = new LRUCache<string, Current>({ max: mostDatabases })
  readonly #forgotten = new LRUCache<string, number>({ max: mostDatabases })
  /** The running read that concurrent callers wait for. */
  readonly #runningOverviews = new Map<string, Running<Overview>>()
  readonly #runningVersions = new Map<string, Running<Current>>()
  /** The number of invalidations. A clock is too coarse to order invalidations and reads. */
  #changes = 0
  #numbers = 0

  constructor(access: DatabaseAccess, now: () => number) {
    this.#access = access
    this.#now = now
  }

  async overview(reading: Reading): Promise<Overview> {
    const { database } = reading
    if (this.#usableOverview(database) !== undefined) {
      const number = await this.#currentNumber(reading)
      const cached = this.#usableOverview(database)
      if (cached?.number === number) return cached.overview
    }
    return this.#shared(this.#runningOverviews, reading, database.metadataMs, begun =>
      this.#readOverview(reading, begun),
    )
  }

  async details(reading: Reading, relations: readonly Relation[]): Promise<ReadonlyMap<string, RelationDetails>> {
    const { database, context, tool } = reading
    const keyFor = (oid: string) => `${keyOf(database)} ${oid}`
    const number = await this.#currentNumber(reading)
    const found = new Map<string, RelationDetails>()
    for (const { oid } of relations) {
      const cached = this.#details.get(keyFor(oid))
      if (cached?.number === number && this.#isCurrent(cached.begun, database, database.metadataMs))
        found.set(oid, cached.details)
    }
    const missing = relations.flatMap(({ oid }) => (found.has(oid) ? [] : [oid]))
    if (missing.length === 0) return found
    const begun = this.#begin()
    const rows = await this.#access.read(database, detailStatements(missing), context, tool)
    for (const [oid, details] of detailsOf(missing, rows)) {
      found.set(oid, details)
      this.#details.set(keyFor(oid), { details, number, begun })
    }
    return found
  }

  forget(database: DatabaseSettings): void {
    this.#forgotten.set(keyOf(database), ++this.#changes)
  }

  #begin(): Begun {
    return { at: this.#now(), changes: this.#changes }
  }

  #isCurrent({ at, changes }: Begun, database: DatabaseSettings, maximumMs: number): boolean {
    return this.#now() - at <= maximumMs && changes >= (this.#forgotten.get(keyOf(database)) ?? 0)
  }

  #usableOverview(database: DatabaseSettings) {
    const cached = this.#overviews.get(keyOf(database))
    return cached !== undefined && this.#isCurrent(cached.begun, database, database.metadataMs) ? cached : undefined
  }

  /**
   * Waits for a running read that other callers started. Starts a new read if there is none, if the running read
   * started too long ago, or if it fails, for example because its caller aborts.
   */
  async #shared<T>(
    running: Map<string, Running<T>>,
    { database, context }: Reading,
    maximumMs: number,
    work: (begun: Begun) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(database)
    const another = running.get(key)
    if (another !== undefined && this.#isCurrent(another.begun, database, maximumMs)) {
      const found = await another.result.catch(() => undefined)
      context.signal.throwIfAborted()
      if (found !== undefined) return found
    }
    const begun = this.#begin()
    const result = work(begun)
    running.set(key, { result, begun })
    try {
      return await result
    } finally {
      if (running.get(key)?.result === result) running.delete(key)
    }
  }

  #keepVersion(database: DatabaseSettings, version: Version, begun: Begun): Current {
    const before = this.#versions.get(keyOf(database))
    const isSame = before?.version.fingerprint === version.fingerprint
    const current = { version, number: isSame ? before.number : ++this.#numbers, begun }
    this.#versions.set(keyOf(database), current)
    return current
  }

  async #readOverview({ database, context, tool }: Reading, begun: Begun): Promise<Overview> {
    const statements = [versionStatement(undefined), ...overviewStatements]
    const [version, ...rows] = await this.#access.read(database, statements, context, tool, true)
    const overview = overviewOf(rows)
    const { number } = this.#keepVersion(database, versionOf(version, undefined), begun)
    this.#overviews.set(keyOf(database), { overview, number, begun })
    return overview
  }

  async #readVersion({ database, context, tool }: Reading, begun: Begun): Promise<Current> {
    const before = this.#versions.get(keyOf(database))?.version
    const [rows] = await this.#access.read(database, [versionStatement(before)], context, tool, true)
    return this.#keepVersion(database, versionOf(rows, before), begun)
  }

  async #currentNumber(reading: Reading): Promise<number> {
    const cached = this.#versions.get(keyOf(reading.database))
    if (cached !== undefined && this.#isCurrent(cached.begun, reading.database, versionMs)) return cached.number
    const read = (begun: Begun) => this.#readVersion(reading, begun)
    return (await this.#shared(this.#runningVersions, reading, versionMs, read)).number
  }
}
