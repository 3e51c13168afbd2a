/**
 * The controller of schedules: has the backups of a database taken that are due, and lets go of those that have been kept
 * long enough. It asks for each by one object, whose name is made of the time it was due, so that a crash makes no second
 * one; what it asked for last is on record with the database, so that one which somebody deletes is not taken again.
 */
import { isClusterError } from '../../../cluster/index.ts'
import { keyOf, parseKey } from '../../../cluster/informer/index.ts'
import { type Controller, lowPriority, startController } from '../../../controller/index.ts'
import {
  apiVersion,
  type Backup,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  snapshotRefusal,
  teardownFinalizer,
} from '../../../crds/index.ts'
import { createIds } from '../../../values/id.ts'
import { timestamp } from '../../../values/time.ts'
import type { ControllerOptions } from '../../controller-options.ts'
import { createIfAbsent } from '../../objects/create.ts'
import { backupsOf, isUnderWay } from '../observe.ts'
import { isServing, nextBackup, scheduleOf } from './due.ts'
import { retentionOf } from './retention.ts'

type ScheduleOptions = ControllerOptions & {
  /** False: none is due. What is there is let go of all the same. */
  schedules: boolean
  spreadMs: number
  workers: number
}

/** However far away the next one is, it is looked again: machines sleep, clocks are set, backups grow old. */
const longestMs = 3600_000
/** Most that one look lets go of. */
const goingAtOnce = 10

export function startBackupSchedules(options: ScheduleOptions): { stop(): Promise<void> } {
  const { caches, schedules, spreadMs, clock, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const newId = createIds(now)
  const operatorStartedAt = now()
  let controller: Controller | undefined

  const ownBackups = ({ metadata }: ManagedDatabase, id: string): Backup[] =>
    backupsOf(caches, metadata.namespace, id).filter(({ spec }) => spec.databaseName === metadata.name)

  const reconcile = async (key: string) => {
    const database = caches.databases.get(parseKey(key))
    const id = database?.metadata.labels?.[labels.id]
    if (database === undefined || id === undefined) return undefined
    if (database.metadata.deletionTimestamp !== undefined) return undefined
    const backups = ownBackups(database, id)
    const goes = await letGo(database, backups)
    const wakeMs = schedules ? await ask(database, id, backups) : undefined
    return { requeueAfterMs: goes ? 0 : Math.min(longestMs, wakeMs ?? longestMs) }
  }

  /** Whether more is to go. */
  const letGo = async ({ spec, status }: ManagedDatabase, backups: readonly Backup[]): Promise<boolean> => {
    if (clock.doubt() !== undefined) return false
    // Without its backup the volume of before a restore would be kept until somebody deletes it.
    const ofPrevious = new Set(status?.previous?.map(({ backup }) => backup))
    const surplus = retentionOf(backups, spec.backup, now()).goes.filter(
      backup => !isInUse(backup) && !ofPrevious.has(backup.metadata.name),
    )
    for (const backup of surplus.slice(0, goingAtOnce)) {
      const { namespace, name, uid } = backup.metadata
      logger.info({ backup: keyOf(backup) }, 'lets go of a backup that has been kept long enough')
      await cluster.delete('Backup', { namespace, name }, { uid })
    }
    return surplus.length > goingAtOnce
  }

  /** Whether a restore needs it that has not ended, a database that is still to be made, or a branch that is. */
  const isInUse = (backup: Backup): boolean =>
    [caches.restores, caches.databases, caches.branches].some(
      cache => cache.byIndex('source', keyOf(backup)).length > 0,
    )

  /** @returns in how many ms to look again */
  const ask = async (
    database: ManagedDatabase,
    id: string,
    backups: readonly Backup[],
  ): Promise<number | undefined> => {
    const schedule = scheduleOf(database.spec.backup, id, spreadMs, now())
    if (schedule.state !== 'on' || !canBeTaken(database)) return undefined
    const scheduled = backups.filter(({ spec }) => spec.purpose === 'scheduled')
    const taken = {
      createdAt: Date.parse(database.metadata.creationTimestamp ?? ''),
      recordedAt: recordedAt(database),
      askedAt: scheduled.map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '')),
      isUnderWay: scheduled.some(isUnderWay),
    }
    const place = { id, spreadMs, operatorStartedAt, now: now() }
    const due = nextBackup(schedule, taken, place)
    const untilNext = schedule.next === undefined ? undefined : schedule.next - now()
    if (due === undefined) return untilNext
    if (due.takeAt > now()) return due.takeAt - now()
    await create(database, id, due.dueAt)
    await record(database, due.dueAt)
    return untilNext
  }

  /** Whoever cannot be backed up now is looked at again as soon as that changes. */
  const canBeTaken = (database: ManagedDatabase): boolean => {
    const { region } = database.spec
    const refusal = snapshotRefusal(region, caches.regions.get({ name: region }))
    return caches.snapshots.served === 'served' && refusal === undefined && isServing(database)
  }

  const create = async ({ metadata }: ManagedDatabase, databaseId: string, dueAt: number) => {
    const { namespace = '', name, labels: marks } = metadata
    const tenant = marks?.[labels.tenant]
    const time = timestamp(dueAt).replaceAll(/[-:Z]/g, '').replace('T', '-')
    // One that is there was asked for before a crash.
    await createIfAbsent(cluster, 'Backup', {
      apiVersion,
      kind: 'Backup',
      metadata: {
        name: `${name}-scheduled-${time}`,
        namespace,
        labels: {
          [labels.id]: newId(),
          [labels.managedBy]: managedByEspalier,
          ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
        },
        finalizers: [teardownFinalizer],
      },
      spec: { databaseName: name, databaseId, kind: 'hot', purpose: 'scheduled' },
    })
  }

  /** Whoever changed the database meanwhile has it looked at again. */
  const record = async (database: ManagedDatabase, dueAt: number) => {
    const status = { ...database.status, scheduledBackupAt: timestamp(dueAt) }
    try {
      await cluster.replaceStatus('ManagedDatabase', { ...database, status })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
    }
  }

  controller = startController({
    name: 'backup-schedule',
    workers: options.workers,
    reconcile,
    keys: () => caches.databases.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const later = (key: string) => controller?.enqueue(key, { priority: lowPriority })
  const all = () => {
    for (const database of caches.databases.list()) later(keyOf(database))
  }
  const unfollow = [
    caches.databases.onChange(({ object }) => later(keyOf(object))),
    caches.backups.onChange(({ object }) => later(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.regions.onChange(all),
    caches.snapshots.onServed(all),
    clock.onChange(all),
  ]
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await controller?.stop()
    },
  }
}

const recordedAt = ({ status }: ManagedDatabase): number | undefined =>
  status?.scheduledBackupAt === undefined ? undefined : Date.parse(status.scheduledBackupAt)
