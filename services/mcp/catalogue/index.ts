/**
 * Keeps what has been read of the users' catalogues. An answer is never older than a second: a version that is computed from the catalogue is compared before what is kept is
 * used. `metadata_ttl` bounds the age of what no version covers, such as estimates of rows. The memory is bounded. What is kept is of the role that the server connects as, so it is
 * the same for all callers of a database.
 */
import { LRUCache } from 'lru-cache'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { detailStatements, detailsOf, type RelationDetails } from './details.ts'
import { type Overview, overviewOf, overviewStatements, type Relation } from './relations.ts'
import { type Version, versionOf, versionStatement } from './version.ts'

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

export function createCatalogue(access: DatabaseAccess, now: () => number): Catalogue {
  const overviews = new LRUCache<string, { overview: Overview; number: number; begun: Begun }>({
    maxSize: keptRelations,
    sizeCalculation: ({ overview }) => 1 + overview.relations.length + overview.schemas.length,
  })
  const known = new LRUCache<string, { details: RelationDetails; number: number; begun: Begun }>({
    maxSize: keptParts,
    sizeCalculation: ({ details }) => sizeOf(details),
  })
  const versions = new LRUCache<string, Current>({ max: mostDatabases })
  const forgotten = new LRUCache<string, number>({ max: mostDatabases })
  /** How often something has been forgotten: a clock is too coarse to tell what came first. */
  let changes = 0
  let numbers = 0
  const begin = (): Begun => ({ at: now(), changes })
  const isBelieved = ({ at, changes: before }: Begun, database: DatabaseSettings, maximumMs: number) =>
    now() - at <= maximumMs && before >= (forgotten.get(keyOf(database)) ?? 0)

  /** What others who ask meanwhile wait for, too. */
  const runningOverviews = new Map<string, Running<Overview>>()
  const runningVersions = new Map<string, Running<Current>>()

  /** Joins what runs already, unless it has begun too long ago or fails, as where its caller goes away. */
  async function shared<T>(
    running: Map<string, Running<T>>,
    { database, context }: Reading,
    maximumMs: number,
    work: (begun: Begun) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(database)
    const another = running.get(key)
    if (another !== undefined && isBelieved(another.begun, database, maximumMs)) {
      const found = await another.result.catch(() => undefined)
      context.signal.throwIfAborted()
      if (found !== undefined) return found
    }
    const begun = begin()
    const result = work(begun)
    running.set(key, { result, begun })
    try {
      return await result
    } finally {
      if (running.get(key)?.result === result) running.delete(key)
    }
  }

  function keepVersion(database: DatabaseSettings, version: Version, begun: Begun): Current {
    const before = versions.get(keyOf(database))
    const isSame = before?.version.fingerprint === version.fingerprint
    const current = { version, number: isSame ? before.number : ++numbers, begun }
    versions.set(keyOf(database), current)
    return current
  }

  function readOverview({ database, context, tool }: Reading, begun: Begun): Promise<Overview> {
    const statements = [versionStatement(undefined), ...overviewStatements]
    return access.read(database, statements, context, tool, true).then(([version, ...rows]) => {
      const overview = overviewOf(rows)
      const { number } = keepVersion(database, versionOf(version, undefined), begun)
      overviews.set(keyOf(database), { overview, number, begun })
      return overview
    })
  }

  function readVersion({ database, context, tool }: Reading, begun: Begun): Promise<Current> {
    const before = versions.get(keyOf(database))?.version
    return access
      .read(database, [versionStatement(before)], context, tool, true)
      .then(([rows]) => keepVersion(database, versionOf(rows, before), begun))
  }

  async function currentNumber(reading: Reading): Promise<number> {
    const kept = versions.get(keyOf(reading.database))
    if (kept !== undefined && isBelieved(kept.begun, reading.database, versionMs)) return kept.number
    return (await shared(runningVersions, reading, versionMs, begun => readVersion(reading, begun))).number
  }

  return {
    async overview(reading) {
      const { database } = reading
      const isUsable = () => {
        const kept = overviews.get(keyOf(database))
        return kept !== undefined && isBelieved(kept.begun, database, database.metadataMs) ? kept : undefined
      }
      if (isUsable() !== undefined) {
        const number = await currentNumber(reading)
        const kept = isUsable()
        if (kept?.number === number) return kept.overview
      }
      return shared(runningOverviews, reading, database.metadataMs, begun => readOverview(reading, begun))
    },
    async details(reading, relations) {
      const { database, context, tool } = reading
      const keyFor = (oid: string) => `${keyOf(database)} ${oid}`
      const number = await currentNumber(reading)
      const found = new Map<string, RelationDetails>()
      for (const { oid } of relations) {
        const kept = known.get(keyFor(oid))
        if (kept?.number === number && isBelieved(kept.begun, database, database.metadataMs))
          found.set(oid, kept.details)
      }
      const missing = relations.flatMap(({ oid }) => (found.has(oid) ? [] : [oid]))
      if (missing.length === 0) return found
      const begun = begin()
      const rows = await access.read(database, detailStatements(missing), context, tool)
      for (const [oid, details] of detailsOf(missing, rows)) {
        found.set(oid, details)
        known.set(keyFor(oid), { details, number, begun })
      }
      return found
    },
    forget: database => void forgotten.set(keyOf(database), ++changes),
  }
}
