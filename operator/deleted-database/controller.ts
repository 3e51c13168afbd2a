/**
 * The controller of deleted databases. When a database can no longer be restored, it deletes the remaining objects, and
 * then the record that names them. Every step can be repeated. So after a crash, or if the archive is unreachable, the
 * operator only has to retry.
 */
import type { ConfigMap } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import {
  type Controller,
  type EventRecorder,
  lowPriority,
  type ReconcileResult,
  startController,
} from '../../controller/index.ts'
import { deletedDatabaseComponent, deletedDatabaseKey, labels, readDeletedDatabase } from '../../crds/index.ts'
import type { ArchiveWays } from '../archive/ways.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type Collector, collect } from './collect.ts'
import { createDeletedDatabaseMetrics } from './metrics.ts'

type DeletedOptions = ControllerOptions & {
  archive: () => ArchiveWays | undefined
  events: EventRecorder
  workers: number
}

/** The interval of the checks of a waiting record. */
const waitMs = 3600_000

const isRecord = ({ metadata }: ConfigMap): boolean =>
  metadata.labels?.[labels.component] === deletedDatabaseComponent &&
  metadata.namespace === deletedDatabaseKey('').namespace

export function startDeletedDatabases(options: DeletedOptions): { stop(): Promise<void> } {
  const { caches, archive, events, clock, now, logger, metrics, signal, workers } = options
  const cluster = caches.writeThrough(options.cluster)
  const collector: Omit<Collector, 'signal'> = { cluster, archive, isServed: caches.isServed, clock, now, logger }

  async function reconcile(key: string, passSignal: AbortSignal): Promise<ReconcileResult> {
    const map = caches.configMaps.get(parseKey(key))
    if (map === undefined || !isRecord(map)) return undefined
    const deleted = readDeletedDatabase(map)
    if (deleted === undefined) {
      logger.error(
        { record: key },
        "the record of a deleted database cannot be read, so the operator keeps the database's data in the archive",
      )
      return { requeueAfterMs: waitMs }
    }
    const found = await collect({ ...collector, signal: passSignal }, map, deleted).catch((error: unknown) => {
      // A ConfigMap has no conditions, so an Event reports this. The operator retries the deletion.
      const why = error instanceof Error ? error.message : String(error)
      events.record(map, 'Warning', 'NotDeleted', `the remaining objects of the database cannot be deleted yet: ${why}`)
      throw error
    })
    return found === 'done' ? undefined : { requeueAfterMs: found === 'waits' ? waitMs : found.againMs }
  }

  const records = () => caches.configMaps.list().filter(isRecord)
  const removeMetrics = createDeletedDatabaseMetrics(metrics, records, now)
  const controller: Controller = startController({
    name: 'deleted-database',
    workers,
    reconcile,
    keys: () => records().map(keyOf),
    ...{ signal, logger, metrics },
  })
  const enqueue = (id: string | undefined) => {
    const map = id === undefined ? undefined : caches.configMaps.get(deletedDatabaseKey(id))
    if (map !== undefined) controller.enqueue(keyOf(map), { priority: lowPriority })
  }
  const unsubscribe = [
    caches.configMaps.onChange(({ type, object }) => {
      if (type !== 'deleted' && isRecord(object)) controller.enqueue(keyOf(object))
    }),
    caches.databases.onChange(({ object }) => enqueue(object.metadata.labels?.[labels.id])),
    clock.onChange(() => {
      for (const map of records()) controller.enqueue(keyOf(map))
    }),
    caches.backups.onChange(({ type, object }) => {
      if (type === 'deleted') enqueue(object.spec.databaseId)
    }),
  ]
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      removeMetrics()
      await controller.stop()
    },
  }
}
