/** Reads the audit entries of a tenant, newest first: those of its segments, and those that wait in this replica. */
import type { FastifyBaseLogger } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { labels, tenantHash } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { unavailable } from '../errors.ts'
import type { AuditRecorder } from './recorder.ts'
import {
  auditComponent,
  entryOf,
  type Line,
  linesOf,
  retentionMs,
  type StoredEntry,
  segmentNumber,
  UnreadableSegment,
} from './segment.ts'

type AuditQuery = {
  limit: number
  /** Entries with a lower id only. */
  cursor?: string | undefined
  isMeant: (entry: StoredEntry) => boolean
}
type AuditPage = { entries: StoredEntry[]; hasMore: boolean }
export type ReadAudit = (account: { tenantId: string; namespace: string }, query: AuditQuery) => Promise<AuditPage>

/** Segments and lines whose problem is logged already. */
const mostReported = 1_000

type ReaderOptions = { cluster: Cluster; recorder: AuditRecorder; logger: FastifyBaseLogger; now: () => number }

/** The page of lines that may have duplicates, in any order. Calls `onInvalid` for a line that is no entry. */
export function pageOfLines(
  lines: readonly Line[],
  { limit, cursor, isMeant }: AuditQuery,
  since: number,
  onInvalid: (line: Line) => void = () => {},
): AuditPage {
  const entries: StoredEntry[] = []
  let previous = cursor
  for (const line of lines.toSorted((left, right) => (left.id < right.id ? 1 : left.id > right.id ? -1 : 0))) {
    if (previous !== undefined && line.id >= previous) continue
    if ((timeOfId(line.id) ?? 0) < since) break
    previous = line.id
    const entry = entryOf(line)
    if (entry === undefined) onInvalid(line)
    else if (isMeant(entry)) {
      if (entries.length === limit) return { entries, hasMore: true }
      entries.push(entry)
    }
  }
  return { entries, hasMore: false }
}

export function createAuditReader({ cluster, recorder, logger, now }: ReaderOptions): ReadAudit {
  const reported = new LRUCache<string, true>({ max: mostReported })

  function report(namespace: string, name: string, reason: string): void {
    const what = `${namespace} ${name} ${reason}`
    if (reported.has(what)) return
    reported.set(what, true)
    logger.warn({ namespace, name, reason }, 'a part of the audit log cannot be read and is skipped')
  }

  async function readable(object: ConfigMap, tenant: string): Promise<Line[]> {
    const { namespace = '', name } = object.metadata
    try {
      if (segmentNumber(object) === undefined || object.metadata.labels?.[labels.tenant] !== tenant)
        throw new UnreadableSegment('it is not a segment of this tenant')
      return await linesOf(object)
    } catch (error) {
      if (!(error instanceof UnreadableSegment)) throw error
      report(namespace, name, error.message)
      return []
    }
  }

  return async ({ tenantId, namespace }, query) => {
    const waiting = [...recorder.waiting(tenantId)]
    const { items } = await cluster.list('ConfigMap', { namespace, labels: { [labels.component]: auditComponent } })
    if (items.length === 0 && recorder.isRefused(tenantId))
      throw unavailable('the cluster refuses audit entries: the log of the API has them, and the reason')
    const tenant = tenantHash(tenantId)
    const stored = await Promise.all(items.map(object => readable(object, tenant)))
    const onInvalid = ({ id }: Line) => report(namespace, id, 'the line is not an entry')
    return pageOfLines([...stored.flat(), ...waiting], query, now() - retentionMs, onInvalid)
  }
}
