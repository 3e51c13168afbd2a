/**
 * Keeps what has been read of the users' catalogues. An answer is never older than a second: a version that is computed from the catalogue is compared before what is kept is
 * used. `metadata_ttl` bounds the age of what no version covers, such as estimates of rows. The memory is bounded. What is kept is of the role that the server connects as, so it is
 * the same for all callers of a database.
 */
import { LRUCache } from 'lru-cache'
import { type Version, versionOf, versionStatement } from '../../schema-cache/version.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { detailStatements, detailsOf, type RelationDetails } from './details.ts'
import { type Overview, overviewOf, overviewStatements, type Relation } from './relations.ts'

/** On whose behalf something is read. */
export type Reading = { readonly database: DatabaseSettings; readonly context: CallContext; readonly tool: string }

export type Catalogue = {
  /** The same object while nothing in the catalogue has changed and nothing of it is too old. */
  overview(reading: Reading): Promise<Overview>
  details(reading: Reading, relations: readonly Relation[]): Promise<ReadonlyMap<string, RelationDetails>>
  /** It has changed: what was read until now is not believed any more. */
  forget(database: DatabaseSettings): void
}

/** How long a version counts as the current one. The rest of the second is for reading and answering. */
const versionMs = 800

/** Relations in all overviews that are kept; one takes some 300 bytes. */
const keptRelations = 100_000
/** Columns, constraints and indexes in all details that are kept. */
const keptParts = 100_000
const mostDatabases = 1_000

const sizeOf = ({ columns, constraints, indexes, referencedBy }: RelationDetails) =>
  1 + columns.length + constraints.length + indexes.length + referencedBy.length

const keys = new WeakMap<DatabaseSettings, string>()

/** A role of a database somewhere: what is read of it does not depend on anything else. */
function keyOf(settings: DatabaseSettings): string {
  const { host, port, database, user } = settings
  const key = keys.get(settings) ?? JSON.stringify([host, port, database, user])
  keys.set(settings, key)
  return key
}

/** When something began to be read. `changes`: of how many it may know. */
type Begun = { readonly at: number; readonly changes: number }

type Running<T> = { readonly result: Promise<T>; readonly begun: Begun }

/** `number`: another one for each fingerprint. */
type Current = { readonly version: Version; readonly number: number; readonly begun: Begun }

export const createCatalogue = (access: DatabaseAccess, now: () => number): Catalogue => new KeptCatalogue(access, now)

class KeptCatalogue implements Catalogue {
  readonly #access: DatabaseAccess
  readonly #now: () => number
  readonly #overviews = new LRUCache<string, { overview: Overview; number: number; begun: Begun }>({
    maxSize: keptRelations,
    sizeCalculation: ({ overview }) => 1 + overview.relations.length + overview.schemas.length,
  })
  readonly #details = new LRUCache<string, { details: RelationDetails; number: number; begun: Begun }>({
    maxSize: keptParts,
    sizeCalculation: ({ details }) => sizeOf(details),
  })
  readonly #versions = new LRUCache<string, Current>({ max: mostDatabases })
  readonly #forgotten = new LRUCache<string, number>({ max: mostDatabases })
  /** What others who ask meanwhile wait for, too. */
  readonly #runningOverviews = new Map<string, Running<Overview>>()
  readonly #runningVersions = new Map<string, Running<Current>>()
  /** How often something has been forgotten: a clock is too coarse to tell what came first. */
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
      const kept = this.#usableOverview(database)
      if (kept?.number === number) return kept.overview
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
      const kept = this.#details.get(keyFor(oid))
      if (kept?.number === number && this.#isBelieved(kept.begun, database, database.metadataMs))
        found.set(oid, kept.details)
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

  #isBelieved({ at, changes }: Begun, database: DatabaseSettings, maximumMs: number): boolean {
    return this.#now() - at <= maximumMs && changes >= (this.#forgotten.get(keyOf(database)) ?? 0)
  }

  #usableOverview(database: DatabaseSettings) {
    const kept = this.#overviews.get(keyOf(database))
    return kept !== undefined && this.#isBelieved(kept.begun, database, database.metadataMs) ? kept : undefined
  }

  /** Joins what runs already, unless it has begun too long ago or fails, as where its caller goes away. */
  async #shared<T>(
    running: Map<string, Running<T>>,
    { database, context }: Reading,
    maximumMs: number,
    work: (begun: Begun) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(database)
    const another = running.get(key)
    if (another !== undefined && this.#isBelieved(another.begun, database, maximumMs)) {
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
    const kept = this.#versions.get(keyOf(reading.database))
    if (kept !== undefined && this.#isBelieved(kept.begun, reading.database, versionMs)) return kept.number
    const read = (begun: Begun) => this.#readVersion(reading, begun)
    return (await this.#shared(this.#runningVersions, reading, versionMs, read)).number
  }
}
