/** Reads the audit entries of a tenant, newest first: those of its segments, and those that wait in this replica. */
import type { FastifyBaseLogger } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { labels, tenantHash } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { atMost } from '../at-once.ts'
import { unavailable } from '../errors.ts'
import type { AuditRecorder } from './recorder.ts'
import {
  auditComponent,
  entryOf,
  isSegmentOf,
  type Line,
  linesOf,
  newestSegments,
  retentionMs,
  type StoredEntry,
  UnreadableSegment,
} from './segment.ts'

type AuditQuery = {
  limit: number
  /** Entries with a lower id only. */
  cursor?: string | undefined
  isMeant: (entry: StoredEntry) => boolean
}
type AuditPage = { entries: StoredEntry[]; hasMore: boolean }
type Tenant = { tenantId: string; namespace: string }
export type ReadAudit = (account: Tenant, query: AuditQuery) => Promise<AuditPage>

/** Problems that are logged already. */
const mostReported = 1_000
/** Concurrent reads, each of some megabytes of text at most. */
const mostAtOnce = 4

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
    previous = line.id
    const time = timeOfId(line.id)
    if (time !== undefined && time < since) break
    const entry = time === undefined ? undefined : entryOf(line)
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

  const bounded = atMost(mostAtOnce)

  /** Of each namespace, only one line is logged. A segment may have thousands. */
  function report(namespace: string, { name, line }: { name?: string; line?: string }, reason: string): void {
    const what = `${namespace} ${name} ${reason}`
    if (reported.has(what)) return
    reported.set(what, true)
    logger.warn({ namespace, name, line, reason }, 'a part of the audit log cannot be read and is skipped')
  }

  async function readable(object: ConfigMap): Promise<Line[]> {
    const { namespace = '', name } = object.metadata
    try {
      return await linesOf(object)
    } catch (error) {
      if (!(error instanceof UnreadableSegment)) throw error
      report(namespace, { name }, error.message)
      return []
    }
  }

  async function read({ tenantId, namespace }: Tenant, query: AuditQuery): Promise<AuditPage> {
    const waiting = [...recorder.waiting(tenantId)]
    const { items } = await cluster.list('ConfigMap', { namespace, labels: { [labels.component]: auditComponent } })
    if (items.length === 0 && recorder.isRefused(tenantId))
      throw unavailable('the cluster refuses audit entries: the log of the API has them, and the reason')
    const tenant = tenantHash(tenantId)
    const own = items.filter(object => isSegmentOf(object, tenant))
    for (const { metadata } of items.filter(object => !own.includes(object)))
      report(namespace, metadata, 'it is not a segment of this tenant')
    const stored = await Promise.all(newestSegments(own).map(readable))
    const onInvalid = ({ id }: Line) => report(namespace, { line: id }, 'the line is not an entry')
    return pageOfLines([...stored.flat(), ...waiting], query, now() - retentionMs, onInvalid)
  }
  return (account, query) => bounded(account.tenantId, () => read(account, query))
}
