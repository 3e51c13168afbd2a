/**
 * Limits a tenant's records of Idempotency-Keys, because each record is an object in the cluster for a day. Above the
 * limit, a new key is refused. No record is deleted before it expires, because a repeated write would then be executed
 * again. The count is refreshed from the cluster regularly, because other replicas create records too. All replicas
 * together may exceed the limit by a few records.
 */
import { LRUCache } from 'lru-cache'
import { type Cluster, type ConfigMap, isClusterError } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { ApiError } from '../errors.ts'
import { contentOf, endOf, idempotencyComponent, validMs } from './record.ts'

/** The number of records in one list request to the cluster. */
const pageSize = 500
/** The number of tenants whose count is cached. */
const maximumTenants = 10_000
/** The minimum time between two counts of a tenant at its limit. */
const fullMs = 10_000
/**
 * The count is refreshed after this share (a twentieth) of the limit has been added, because other replicas may have
 * added as many.
 */
const trustedShare = 20

type Count = {
  /** The cluster's count, plus records that this process has created since. */
  listed: number
  since: number
  /** When the first of the counted records expires. */
  firstEnd: number
  /** Until when the limit is known to be reached. */
  fullUntil: number
}

type RecordLimit = {
  /** Creates a record. @throws ApiError 429 if the limit is reached */
  create: (namespace: string, create: () => Promise<ConfigMap>) => Promise<ConfigMap>
  /** Deletes expired records of all tenants. */
  sweep: () => Promise<void>
}

/**
 * Deletes a record if it is unchanged since it was read. Returns whether it is deleted: another request may have
 * continued with the record.
 */
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
    `Idempotency-Key: the account has used ${mostRecords} new keys within 24 hours, the maximum: omit the header, or retry when the first of them is that old`,
    {
      headers: {
        'Retry-After': String(seconds),
        'RateLimit-Policy': `"keys";q=${mostRecords};w=${validMs / 1000}`,
        RateLimit: `"keys";r=0;t=${seconds}`,
      },
    },
  )
}

export function createRecordLimit(cluster: Cluster, now: () => number, mostRecords: number): RecordLimit {
  const counts = new LRUCache<string, Promise<Count>>({ max: maximumTenants })
  /** The number of each tenant's records that are being created. No count contains them yet. */
  const creating = new Map<string, number>()

  async function* pages(namespace?: string): AsyncGenerator<ConfigMap[]> {
    const selection = { labels: { [labels.component]: idempotencyComponent }, namespace, limit: pageSize }
    let continueToken: string | undefined
    do {
      const page = await cluster.list('ConfigMap', { ...selection, continueToken })
      yield page.items
      continueToken = page.continueToken
    } while (continueToken !== undefined)
  }

  /** Deletes expired records, and counts the remaining records. */
  async function cleared(namespace?: string): Promise<Pick<Count, 'listed' | 'firstEnd'>> {
    let listed = 0
    let firstEnd = Number.POSITIVE_INFINITY
    for await (const records of pages(namespace))
      for (const record of records) {
        const content = contentOf(record, now())
        if (content === undefined) await removeRecord(cluster, record)
        else {
          listed++
          firstEnd = Math.min(firstEnd, endOf(content))
        }
      }
    return { listed, firstEnd }
  }

  async function counted(namespace: string): Promise<Count> {
    const { listed, firstEnd } = await cleared(namespace)
    return { listed, since: 0, firstEnd, fullUntil: listed < mostRecords ? 0 : Math.min(firstEnd, now() + fullMs) }
  }

  const isOutdated = ({ listed, since, fullUntil }: Count): boolean =>
    now() >= fullUntil && (listed + since >= mostRecords || since > mostRecords / trustedShare)

  async function countOf(namespace: string): Promise<Count> {
    const known = counts.get(namespace)
    const count = await known
    if (count !== undefined && !isOutdated(count)) return count
    // If several requests need a new count, only one request reads it.
    const others = counts.get(namespace)
    if (others !== undefined && others !== known) return others
    const counting = counted(namespace)
    counts.set(namespace, counting)
    counting.catch(() => counts.delete(namespace))
    return counting
  }

  return {
    async create(namespace, create) {
      const count = await countOf(namespace)
      const underway = creating.get(namespace) ?? 0
      if (count.listed + count.since + underway >= mostRecords)
        throw tooManyKeys(mostRecords, Math.min(count.firstEnd - now(), validMs))
      creating.set(namespace, underway + 1)
      try {
        const created = await create()
        count.since++
        return created
      } finally {
        const remaining = (creating.get(namespace) ?? 1) - 1
        if (remaining > 0) creating.set(namespace, remaining)
        else creating.delete(namespace)
      }
    },
    sweep: async () => void (await cleared()),
  }
}
