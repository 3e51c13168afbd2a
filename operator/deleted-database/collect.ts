/**
 * Deletes the remaining objects of a deleted database, in this order: its Secrets, its durable Backups, its archives,
 * and last the record.
 */
import type { Logger } from 'pino'
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import {
  type Backup,
  type DeletedDatabase,
  isPurged,
  labels,
  type ManagedDatabase,
  managedByEspalier,
} from '../../crds/index.ts'
import type { ArchiveLocation, ArchiveWays } from '../archive/ways.ts'
import type { ClockGuard } from '../clock/guard.ts'

export type Collector = {
  cluster: Cluster
  archive: () => ArchiveWays | undefined
  /** Whether the operator has its rights in a namespace. */
  isServed: (namespace: string) => boolean
  clock: Pick<ClockGuard, 'distrust'>
  now: () => number
  logger: Logger
  signal: AbortSignal
}

/** `waits`: nothing can be done now. A change in the cluster triggers the next event. */
type Collected = 'done' | 'waits' | { againMs: number }

/** Sorts after every segment of any timeline. */
const afterAllWal = 'FFFFFFFFFFFFFFFFFFFFFFFF'
/** The maximum per volume in one pass. */
const mostPages = 100
const soonMs = 5_000
/** The interval of the checks of a record that is kept. */
const longestMs = 3600_000
const graceMs = 10 * 60_000

/** @throws ClusterError; an error if the archive does not confirm a deletion */
export async function collect(collector: Collector, map: ConfigMap, deleted: DeletedDatabase): Promise<Collected> {
  const { cluster, logger, archive } = collector
  // Reads the cluster: objects of an existing database must never be deleted here.
  const { items: living } = await cluster.list('ManagedDatabase', { labels: { [labels.id]: deleted.id } })
  if (living.length > 0) return living.some(each => hasReturned(each, deleted)) ? forget(collector, map) : 'waits'
  const remainingMs = isPurged(map) ? 0 : retentionMs(collector, deleted)
  if (remainingMs > 0) return { againMs: Math.min(remainingMs, longestMs) }
  if (!(await deleteSecrets(collector, deleted))) return 'waits'
  const backups = await durableBackups(cluster, deleted)
  const ways = archive()
  if (!deleted.keepsBackups && backups.length > 0) {
    const found = await deleteBackups(cluster, backups)
    if (ways !== undefined) return found
  }
  if (ways === undefined) {
    logger.warn(
      { database: deleted.id },
      'the installation has no archive at present: it cannot delete the archived data of a deleted database',
    )
    return 'waits'
  }
  const retained = new Set(backups.map(({ status }) => status?.incarnation))
  for (let incarnation = 1; incarnation <= deleted.incarnation; incarnation++) {
    const isEmpty = await emptyArchive(
      ways,
      { id: deleted.id, incarnation },
      retained.has(incarnation),
      collector.signal,
    )
    if (!isEmpty) return { againMs: 0 }
  }
  logger.info(
    { database: deleted.id, volumes: deleted.incarnation },
    'deleted the remaining objects of a deleted database',
  )
  return forget(collector, map)
}

async function forget({ cluster }: Collector, map: ConfigMap): Promise<Collected> {
  const { namespace, name, uid, resourceVersion } = map.metadata
  await cluster.delete('ConfigMap', { namespace, name }, { uid, resourceVersion })
  return 'done'
}

/**
 * Whether the deleted database was restored, with its data on its own volume. From then on it is like any other
 * database.
 */
const hasReturned = ({ metadata, status }: ManagedDatabase, { namespace, incarnation }: DeletedDatabase): boolean =>
  metadata.namespace === namespace &&
  metadata.deletionTimestamp === undefined &&
  status?.volume !== undefined &&
  (status.incarnation ?? 0) > incarnation

/**
 * How long the database can still be restored, in ms, plus a margin. A request that was accepted at the last moment can
 * complete.
 */
function retentionMs({ clock, now }: Collector, { keptUntil }: DeletedDatabase): number {
  if (keptUntil === undefined) return 0
  // A wrong clock could end the recovery window too early.
  return clock.distrust() === undefined ? Date.parse(keptUntil) + graceMs - now() : longestMs
}

/**
 * @returns false if the operator has no permission to delete the Secrets at present. Secrets of a deleted namespace
 *   were deleted with it.
 */
async function deleteSecrets({ cluster, isServed, logger }: Collector, { id, namespace }: DeletedDatabase) {
  if (!isServed(namespace)) {
    const isDeleted = (await cluster.get('Namespace', { name: namespace })) === undefined
    if (!isDeleted)
      logger.warn({ database: id, namespace }, 'no permission to delete the Secrets of a deleted database')
    return isDeleted
  }
  const { items } = await cluster.list('Secret', {
    namespace,
    labels: { [labels.managedBy]: managedByEspalier, [labels.database]: id },
  })
  for (const { metadata } of items)
    await cluster.delete('Secret', { namespace, name: metadata.name }, { uid: metadata.uid })
  return true
}

async function durableBackups(cluster: Cluster, { id, name, namespace }: DeletedDatabase): Promise<Backup[]> {
  const { items } = await cluster.list('Backup', { namespace })
  return items.filter(({ spec }) => spec.kind === 'durable' && spec.databaseId === id && spec.databaseName === name)
}

/** A Backup keeps its finalizer until the archive has confirmed the deletion of its data. */
async function deleteBackups(cluster: Cluster, backups: readonly Backup[]): Promise<Collected> {
  for (const { metadata } of backups) {
    const { namespace, name, uid, deletionTimestamp } = metadata
    if (deletionTimestamp === undefined) await cluster.delete('Backup', { namespace, name }, { uid })
  }
  return { againMs: soonMs }
}

/** @returns false if more objects remain than one pass deletes */
async function emptyArchive(ways: ArchiveWays, location: ArchiveLocation, keepsBackups: boolean, signal: AbortSignal) {
  for (let page = 0; page < mostPages; page++) {
    const { hasMore } = keepsBackups
      ? await ways.deleteWal(location, afterAllWal, signal)
      : await ways.deleteAll(location, signal)
    if (!hasMore) return true
  }
  return false
}
