/**
 * Stores audit entries where clients can read them. A request only adds its entry to a list in memory. Every two
 * seconds, and when the API stops, the lists are appended to the tenants' segments. An entry that cannot be stored is
 * dropped in the end: the log of the API has it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { LRUCache } from 'lru-cache'
import { type Cluster, type ConfigMap, isClusterError, isRefused } from '../../cluster/index.ts'
import { labels, tenantHash, tenantNamespace } from '../../crds/index.ts'
import { createIds, timeOfId } from '../../values/id.ts'
import type { AuditEntry } from '../audit.ts'
import {
  append,
  auditComponent,
  expiredSegments,
  highestNumber,
  isSegmentOf,
  type Line,
  lineOf,
  linesOf,
  retentionMs,
  segmentDraft,
  segmentName,
  segmentNumber,
  UnreadableSegment,
} from './segment.ts'

const everyMs = 2_000
/** Tenants that are stored in one pass, and segments that are written for one of them: limits the writes to etcd. */
const mostTenants = 20
const mostWrites = 2
/** Entries that wait to be stored. */
const mostWaiting = { ofOne: 500, ofAll: 20_000 }
/** A tenant gets at most this part of the entries that can still wait, so that no tenants use up those of all others. */
const shareOfTenant = 8
const longestWaitMs = 10 * 60_000
/** Tenants whose newest segment is known, which saves a list. */
const mostKnown = 10_000
/** How long a stop waits until the last entries are stored, and for what other replicas write meanwhile. */
const lastPasses = { ms: 3_000, attempts: 5, pauseMs: 100 }

type Waiting = {
  namespace: string
  /** The hash of the tenant's id. */
  tenant: string
  lines: Line[]
  isRefused: boolean
}

export type AuditRecorder = {
  write: (entry: AuditEntry) => void
  /** The tenant's entries that are not stored yet, oldest first. */
  waiting: (tenantId: string) => readonly Line[]
  /** Whether the cluster refuses the tenant's segments. */
  isRefused: (tenantId: string) => boolean
  /** Stores what waits, of at most 20 tenants. */
  flush: () => Promise<void>
  start: () => void
  stop: () => Promise<void>
}

type RecorderOptions = {
  cluster: Cluster
  logger: FastifyBaseLogger
  now: () => number
  /** Counts entries that are not stored. */
  dropped: (count: number) => void
}

const segmentsOf = async (cluster: Cluster, namespace: string): Promise<ConfigMap[]> =>
  (await cluster.list('ConfigMap', { namespace, labels: { [labels.component]: auditComponent } })).items

export function createAuditRecorder({ cluster, logger, now, dropped }: RecorderOptions): AuditRecorder {
  const newId = createIds(now)
  const tenants = new Map<string, Waiting>()
  /** The number of the newest segment, by namespace. */
  const segments = new LRUCache<string, number>({ max: mostKnown })
  const reported = { drop: false, failure: false }
  let waitingOfAll = 0

  function drop(waiting: Waiting, count: number): void {
    if (count === 0) return
    waiting.lines.splice(0, count)
    waitingOfAll -= count
    reportDrop(count)
  }

  function reportDrop(count: number): void {
    dropped(count)
    if (reported.drop) return
    reported.drop = true
    logger.warn('audit entries cannot be stored for GET /audit and are dropped; this log has them')
  }

  /** Removes stored lines. Others may have been added behind them meanwhile. */
  function settle(waiting: Waiting, stored: ReadonlySet<string>): void {
    const before = waiting.lines.length
    waiting.lines = waiting.lines.filter(({ id }) => !stored.has(id))
    waitingOfAll -= before - waiting.lines.length
    waiting.isRefused = false
  }

  async function newest({ namespace, tenant }: Waiting): Promise<number> {
    const own = (await segmentsOf(cluster, namespace)).filter(object => isSegmentOf(object, tenant))
    return Math.max(0, ...own.map(object => segmentNumber(object) ?? 0))
  }

  /** An unreadable segment is left as it is: the next one is begun. */
  async function readLines(object: ConfigMap): Promise<Line[] | undefined> {
    try {
      return await linesOf(object)
    } catch (error) {
      if (error instanceof UnreadableSegment) return undefined
      throw error
    }
  }

  /** Appends to the segment if it exists and is not full. Returns whether it did, or had nothing to append. */
  async function extend(waiting: Waiting, object: ConfigMap): Promise<boolean> {
    const present = await readLines(object)
    if (present === undefined) return false
    // The response to an earlier write of them may have been lost.
    const known = new Set(present.map(({ id }) => id))
    settle(waiting, known)
    const fresh = [...waiting.lines]
    if (fresh.length === 0) return true
    const kept = present.filter(({ id }) => (timeOfId(id) ?? 0) >= now() - retentionMs)
    const packed = await append(kept, fresh)
    if (packed === undefined) return false
    try {
      await cluster.replace('ConfigMap', { ...object, data: packed.data })
    } catch (error) {
      // A user of kubectl has made it immutable, or too large.
      if (isClusterError(error, 'Invalid')) return false
      throw error
    }
    settle(waiting, new Set(fresh.slice(0, packed.added).map(({ id }) => id)))
    return true
  }

  /** Creates the next segment, and deletes those that are not kept. */
  async function begin(waiting: Waiting, number: number): Promise<void> {
    // A user of kubectl has created the last one.
    if (number > highestNumber) return drop(waiting, waiting.lines.length)
    const fresh = [...waiting.lines]
    const packed = await append([], fresh)
    if (packed === undefined) return drop(waiting, 1)
    try {
      await cluster.create('ConfigMap', segmentDraft(waiting.namespace, waiting.tenant, number, packed.data))
    } catch (error) {
      // Another replica has created it: the next step appends to that.
      if (isClusterError(error, 'AlreadyExists')) return
      throw error
    }
    settle(waiting, new Set(fresh.slice(0, packed.added).map(({ id }) => id)))
    for (const { metadata } of expiredSegments(await segmentsOf(cluster, waiting.namespace), now())) {
      const { namespace, name, uid } = metadata
      await cluster.delete('ConfigMap', { namespace, name }, { uid })
    }
  }

  /** One write of a tenant, or the discovery that another replica has written. */
  async function step(waiting: Waiting): Promise<void> {
    const { namespace } = waiting
    const number = segments.get(namespace) ?? (await newest(waiting))
    const object = number > 0 ? await cluster.get('ConfigMap', { namespace, name: segmentName(number) }) : undefined
    // Unknown again, unless this write succeeds.
    segments.delete(namespace)
    if (number > 0 && object === undefined) return
    const isOwn = object !== undefined && isSegmentOf(object, waiting.tenant)
    const isExtended = isOwn && (await extend(waiting, object))
    if (!isExtended) await begin(waiting, number + 1)
    segments.set(namespace, isExtended ? number : number + 1)
  }

  /** Returns whether the cluster answers. */
  async function store(waiting: Waiting): Promise<boolean> {
    try {
      for (let writes = 0; waiting.lines.length > 0 && writes < mostWrites; writes++) await step(waiting)
      return true
    } catch (error) {
      // `Conflict`: another replica has written; the next pass appends to that.
      // `NotFound`: the first write of the tenant was refused, so it has no namespace.
      if (isClusterError(error, 'Conflict', 'NotFound')) return true
      waiting.isRefused = isRefused(error)
      if (!reported.failure) {
        reported.failure = true
        const advice = waiting.isRefused
          ? 'the cluster refuses audit entries for GET /audit, which this log has: upgrade the chart of Espalier if its policy espalier-api-writes is older than this API'
          : 'cannot store audit entries for GET /audit; will retry, and this log has them'
        logger.warn({ err: error }, advice)
      }
      return waiting.isRefused
    }
  }

  function dropExpired(waiting: Waiting): void {
    const since = now() - longestWaitMs
    const first = waiting.lines.findIndex(({ id }) => (timeOfId(id) ?? 0) >= since)
    drop(waiting, first < 0 ? waiting.lines.length : first)
  }

  async function pass(): Promise<void> {
    let count = 0
    for (const [tenantId, waiting] of [...tenants].filter(([, { lines }]) => lines.length > 0)) {
      if (count++ >= mostTenants) return
      const isAnswering = await store(waiting)
      dropExpired(waiting)
      // Behind the others: the next pass begins with those that this one did not reach.
      tenants.delete(tenantId)
      if (waiting.lines.length > 0 || waiting.isRefused) tenants.set(tenantId, waiting)
      if (!isAnswering) return
    }
    reported.failure = [...tenants.values()].some(waiting => waiting.isRefused)
    reported.drop = waitingOfAll > 0 && reported.drop
  }

  let running: Promise<void> | undefined
  const flush = (): Promise<void> => {
    running ??= pass().finally(() => {
      running = undefined
    })
    return running
  }

  function waitingOf(tenantId: string): Waiting {
    const known = tenants.get(tenantId)
    if (known !== undefined) return known
    const namespace = tenantNamespace(tenantId)
    const made = { namespace, tenant: tenantHash(tenantId), lines: [], isRefused: false }
    tenants.set(tenantId, made)
    return made
  }

  /** Ends when nothing waits, or when all tenants were tried several times without success. */
  async function storeAll(): Promise<void> {
    await running?.catch(() => {})
    for (let failures = 0; waitingOfAll > 0 && failures < lastPasses.attempts; ) {
      const before = waitingOfAll
      for (let reached = 0; reached < tenants.size; reached += mostTenants) await flush()
      if (waitingOfAll < before) failures = 0
      else if (++failures < lastPasses.attempts) await sleep(lastPasses.pauseMs)
    }
  }

  let timer: NodeJS.Timeout | undefined
  return {
    write({ tenant, ...entry }) {
      if (tenant === undefined) return
      const free = Math.ceil((mostWaiting.ofAll - waitingOfAll) / shareOfTenant)
      const count = tenants.get(tenant)?.lines.length ?? 0
      if (count >= Math.min(mostWaiting.ofOne, free)) return reportDrop(1)
      waitingOf(tenant).lines.push(lineOf({ id: newId(), ...entry }))
      waitingOfAll++
    },
    waiting: tenantId => tenants.get(tenantId)?.lines ?? [],
    isRefused: tenantId => tenants.get(tenantId)?.isRefused === true,
    flush,
    start() {
      const failed = (error: unknown) => logger.error({ err: error }, 'cannot store audit entries for GET /audit')
      timer = setInterval(() => flush().catch(failed), everyMs)
      timer.unref()
    },
    async stop() {
      clearInterval(timer)
      await Promise.race([storeAll().catch(() => {}), sleep(lastPasses.ms, undefined, { ref: false })])
      if (waitingOfAll > 0) reportDrop(waitingOfAll)
    },
  }
}
