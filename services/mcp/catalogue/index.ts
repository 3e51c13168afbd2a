/**
 * What is known of the users' catalogues, read when it is asked for and believed for as long as the database's settings say. The memory for it is bounded. What is
 * kept is of the role that the server connects as, so it is the same for all callers of a database.
 */
import { LRUCache } from 'lru-cache'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { detailStatements, detailsOf, type RelationDetails } from './details.ts'
import { type Overview, overviewOf, overviewStatements, type Relation } from './relations.ts'

/** On whose behalf something is read. */
export type Reading = { readonly database: DatabaseSettings; readonly context: CallContext; readonly tool: string }

export type Catalogue = {
  /** `noOlderThanMs`: for who misses something that may have been made just now. */
  overview(reading: Reading, noOlderThanMs?: number): Promise<Overview>
  details(reading: Reading, relations: readonly Relation[]): Promise<ReadonlyMap<string, RelationDetails>>
  /** It has changed: what was read until now is not believed any more. */
  forget(database: DatabaseSettings): void
}

/** What was made a moment ago is found, and asking for what is not there costs Postgres one look a second at most. */
export const missedIsReadAgainMs = 1_000

/** Relations in all overviews that are kept; one takes some 300 bytes. */
const keptRelations = 100_000
/** Columns, constraints and indexes in all details that are kept. */
const keptParts = 100_000
const mostDatabases = 1_000

const sizeOf = ({ columns, constraints, indexes, referencedBy }: RelationDetails) =>
  1 + columns.length + constraints.length + indexes.length + referencedBy.length

/** A role of a database somewhere: what is read of it does not depend on anything else. */
const keyOf = ({ host, port, database, user }: DatabaseSettings) => JSON.stringify([host, port, database, user])

/** When something began to be read. `changes`: of how many it may know. */
type Begun = { readonly at: number; readonly changes: number }

export function createCatalogue(access: DatabaseAccess, now: () => number): Catalogue {
  const overviews = new LRUCache<string, { overview: Overview; begun: Begun }>({
    maxSize: keptRelations,
    sizeCalculation: ({ overview }) => 1 + overview.relations.length + overview.schemas.length,
  })
  const known = new LRUCache<string, { details: RelationDetails; begun: Begun }>({
    maxSize: keptParts,
    sizeCalculation: ({ details }) => sizeOf(details),
  })
  const forgotten = new LRUCache<string, number>({ max: mostDatabases })
  /** How often something has been forgotten: a clock is too coarse to tell what came first. */
  let changes = 0
  const begin = (): Begun => ({ at: now(), changes })
  const isBelieved = ({ at, changes: before }: Begun, database: DatabaseSettings, maximumMs: number) =>
    now() - at <= maximumMs && before >= (forgotten.get(keyOf(database)) ?? 0)
  const running = new Map<string, { overview: Promise<Overview>; begun: Begun }>()

  async function readOverview(reading: Reading): Promise<Overview> {
    const key = keyOf(reading.database)
    const begun = begin()
    const { database, context, tool } = reading
    const overview = access.read(database, overviewStatements, context, tool, true).then(overviewOf)
    running.set(key, { overview, begun })
    try {
      const found = await overview
      overviews.set(key, { overview: found, begun })
      return found
    } finally {
      if (running.get(key)?.overview === overview) running.delete(key)
    }
  }

  return {
    async overview(reading, noOlderThanMs = reading.database.metadataMs) {
      const { database, context } = reading
      const key = keyOf(database)
      const maximumMs = Math.min(noOlderThanMs, database.metadataMs)
      const kept = overviews.get(key)
      if (kept !== undefined && isBelieved(kept.begun, database, maximumMs)) return kept.overview
      const another = running.get(key)
      if (another !== undefined && isBelieved(another.begun, database, maximumMs)) {
        // Who asked for it may have gone, and taken it along.
        const overview = await another.overview.catch(() => undefined)
        context.signal.throwIfAborted()
        if (overview !== undefined) return overview
      }
      return readOverview(reading)
    },
    async details(reading, relations) {
      const { database, context, tool } = reading
      const keyFor = (oid: string) => `${keyOf(database)} ${oid}`
      const found = new Map<string, RelationDetails>()
      for (const { oid } of relations) {
        const kept = known.get(keyFor(oid))
        if (kept !== undefined && isBelieved(kept.begun, database, database.metadataMs)) found.set(oid, kept.details)
      }
      const missing = relations.flatMap(({ oid }) => (found.has(oid) ? [] : [oid]))
      if (missing.length === 0) return found
      const begun = begin()
      const rows = await access.read(database, detailStatements(missing), context, tool)
      for (const [oid, details] of detailsOf(missing, rows)) {
        found.set(oid, details)
        known.set(keyFor(oid), { details, begun })
      }
      return found
    },
    forget: database => void forgotten.set(keyOf(database), ++changes),
  }
}
