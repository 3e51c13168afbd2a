/**
 * How many records of Idempotency-Keys a tenant may have, since each is an object in the cluster for a day. Beyond that a new key
 * is refused: no record goes before its time, or a write that is sent again would be done again. What is counted here is told by
 * the cluster from time to time, as other replicas make records too: all together they may be a few too many.
 */
import { LRUCache } from 'lru-cache'
import { type Cluster, type ConfigMap, isClusterError } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { ApiError } from '../errors.ts'
import { contentOf, endOf, idempotencyComponent, validMs } from './record.ts'

/** Records that one request to the cluster lists. */
const pageSize = 500
/** Tenants whose records are counted. */
const tenantsKept = 10_000
/** A tenant that has no room is not counted again before. */
const fullMs = 10_000
/** A count is asked for anew after a twentieth of what there may be, by which other replicas may have gone on too. */
const trustedShare = 20

type Count = {
  /** As the cluster told, and how many were made here since. */
  told: number
  since: number
  /** When the first of those ends that the cluster told of. */
  firstEnd: number
  /** Until when it is known that there is no room. */
  fullUntil: number
}

type Room = {
  /** Makes one more record. @throws ApiError 429 where there is no room for it */
  make: (namespace: string, create: () => Promise<ConfigMap>) => Promise<ConfigMap>
  /** Deletes the records, of every tenant, whose time is over. */
  sweep: () => Promise<void>
}

/** Deletes a record as it was read. Whether it is gone: somebody else may have gone on with it. */
export async function removeRecord(cluster: Cluster, record: ConfigMap): Promise<boolean> {
  const { namespace, name, uid, resourceVersion } = record.metadata
  try {
    await cluster.delete('ConfigMap', { namespace, name }, { uid, resourceVersion })
    return true
  } catch (error) {
    if (isClusterError(error, 'Conflict')) return false
    throw error
  }
}

function tooManyKeys(mostRecords: number, waitMs: number): ApiError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000))
  return new ApiError(
    429,
    `Idempotency-Key: the account has sent ${mostRecords} requests with a new key within 24 hours, which is the most: leave the header out, or try again when the first of them is that old`,
    {
      headers: {
        'Retry-After': String(seconds),
        'RateLimit-Policy': `"keys";q=${mostRecords};w=${validMs / 1000}`,
        RateLimit: `"keys";r=0;t=${seconds}`,
      },
    },
  )
}

export function createRoom(cluster: Cluster, now: () => number, mostRecords: number): Room {
  const counts = new LRUCache<string, Promise<Count>>({ max: tenantsKept })
  /** Of each tenant, those that are being made: no count has them yet. */
  const making = new Map<string, number>()

  async function* pages(namespace?: string): AsyncGenerator<ConfigMap[]> {
    const selection = { labels: { [labels.component]: idempotencyComponent }, namespace, limit: pageSize }
    let continueToken: string | undefined
    do {
      const page = await cluster.list('ConfigMap', { ...selection, continueToken })
      yield page.items
      continueToken = page.continueToken
    } while (continueToken !== undefined)
  }

  /** Deletes those whose time is over; the others are counted. */
  async function cleared(namespace?: string): Promise<Pick<Count, 'told' | 'firstEnd'>> {
    let told = 0
    let firstEnd = Number.POSITIVE_INFINITY
    for await (const records of pages(namespace))
      for (const record of records) {
        const content = contentOf(record, now())
        if (content === undefined) await removeRecord(cluster, record)
        else {
          told++
          firstEnd = Math.min(firstEnd, endOf(content))
        }
      }
    return { told, firstEnd }
  }

  async function counted(namespace: string): Promise<Count> {
    const { told, firstEnd } = await cleared(namespace)
    return { told, since: 0, firstEnd, fullUntil: told < mostRecords ? 0 : Math.min(firstEnd, now() + fullMs) }
  }

  const isDoubtful = ({ told, since, fullUntil }: Count): boolean =>
    now() >= fullUntil && (told + since >= mostRecords || since > mostRecords / trustedShare)

  async function countOf(namespace: string): Promise<Count> {
    const known = counts.get(namespace)
    const count = await known
    if (count !== undefined && !isDoubtful(count)) return count
    // Of several that doubt it, one asks.
    const others = counts.get(namespace)
    if (others !== undefined && others !== known) return others
    const asked = counted(namespace)
    counts.set(namespace, asked)
    asked.catch(() => counts.delete(namespace))
    return asked
  }

  return {
    async make(namespace, create) {
      const count = await countOf(namespace)
      const underway = making.get(namespace) ?? 0
      if (count.told + count.since + underway >= mostRecords)
        throw tooManyKeys(mostRecords, Math.min(count.firstEnd - now(), validMs))
      making.set(namespace, underway + 1)
      try {
        const made = await create()
        count.since++
        return made
      } finally {
        const left = (making.get(namespace) ?? 1) - 1
        if (left > 0) making.set(namespace, left)
        else making.delete(namespace)
      }
    },
    sweep: async () => void (await cleared()),
  }
}
