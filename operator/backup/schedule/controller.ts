/**
 * Creates the scheduled backups of each database, and deletes the backups that retention no longer keeps. A backup's
 * name contains its due time, so that no second one is created after a crash. The database controller records that time
 * in the database's status. A deleted backup keeps its finalizer until then, so that it is not created again.
 */
import type { Cluster, Draft } from '../../../cluster/index.ts'
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
import type { Caches } from '../../caches.ts'
import type { ControllerOptions } from '../../controller-options.ts'
import { createIfAbsent } from '../../objects/create.ts'
import { isUnderWay, ownBackups } from '../observe.ts'
import { isBase, nextBase } from './base.ts'
import { isServing, nextBackup, scheduleOf } from './due.ts'
import { doneUpTo, durableName, recordedAt, scheduledName } from './recorded.ts'
import { retentionOf } from './retention.ts'

type ScheduleOptions = ControllerOptions & {
  /** If false, creates no scheduled backup. Retention still applies. */
  schedules: boolean
  spreadMs: number
  workers: number
  /** Whether durable backups are possible. */
  hasArchive: boolean
}

/** The longest time between two passes, because a machine may sleep, a clock may change, and backups expire. */
const longestMs = 3600_000
/** The maximum number of backups that one pass deletes. */
const deletedAtOnce = 10

export function startBackupSchedules(options: ScheduleOptions): { stop(): Promise<void> } {
  const schedules = new ScheduleController(options)
  const unsubscribe = follow(options, key => schedules.enqueue(key))
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      await schedules.stop()
    },
  }
}

class ScheduleController {
  readonly #options: ScheduleOptions
  readonly #cluster: Cluster
  readonly #newId: () => string
  readonly #startedAt: number
  readonly #controller: Controller

  constructor(options: ScheduleOptions) {
    const { caches, workers, logger, metrics, now, signal } = options
    this.#options = options
    this.#cluster = caches.writeThrough(options.cluster)
    this.#newId = createIds(now)
    this.#startedAt = now()
    this.#controller = startController({
      name: 'backup-schedule',
      workers,
      reconcile: key => this.#reconcile(key),
      keys: () => caches.databases.list().map(keyOf),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key, { priority: lowPriority })
  }

  stop(): Promise<void> {
    return this.#controller.stop()
  }

  async #reconcile(key: string) {
    const { caches, schedules } = this.#options
    const database = caches.databases.get(parseKey(key))
    const id = database?.metadata.labels?.[labels.id]
    if (database === undefined || id === undefined) return undefined
    if (database.metadata.deletionTimestamp !== undefined) return undefined
    const backups = ownBackups(caches, database)
    const hasMore = await this.#deleteSurplus(database, backups)
    const requeueMs = schedules ? await this.#createDue(database, id, backups) : undefined
    const baseMs = schedules ? await this.#createBase(database, id, backups) : undefined
    return { requeueAfterMs: hasMore ? 0 : Math.min(longestMs, requeueMs ?? longestMs, baseMs ?? longestMs) }
  }

  /** @returns whether more is to be deleted */
  async #deleteSurplus({ spec, status }: ManagedDatabase, backups: readonly Backup[]): Promise<boolean> {
    const { caches, clock, logger, now } = this.#options
    if (clock.distrust() !== undefined) return false
    // A previous volume is deleted automatically only while its prerestore backup exists.
    const ofPrevious = new Set(status?.previous?.map(({ backup }) => backup))
    const surplus = retentionOf(backups, spec.backup, now()).toDelete.filter(
      backup => !isInUse(caches, backup) && !ofPrevious.has(backup.metadata.name),
    )
    for (const backup of surplus.slice(0, deletedAtOnce)) {
      const { namespace, name, uid } = backup.metadata
      logger.info({ backup: keyOf(backup) }, 'deletes a backup that retention no longer keeps')
      await this.#cluster.delete('Backup', { namespace, name }, { uid })
    }
    return surplus.length > deletedAtOnce
  }

  /** Creates the backup that is due now. @returns after how many ms to check again */
  async #createDue(database: ManagedDatabase, id: string, backups: readonly Backup[]): Promise<number | undefined> {
    const { spreadMs, now } = this.#options
    const schedule = scheduleOf(database.spec.backup, id, spreadMs, now())
    const kinds = this.#kindsOf(database)
    if (schedule.state !== 'on' || kinds.length === 0) return undefined
    // After a crash between two creations only the durable backup exists. It is ignored, so that the hot one is taken.
    const durable = schedule.last === undefined ? undefined : durableName(database.metadata.name, schedule.last)
    const ofSchedule = backups.filter(backup => backup.spec.purpose === 'scheduled' && !isBase(backup))
    const scheduled = ofSchedule.filter(({ metadata }) => metadata.name !== durable)
    // If hot backups have become impossible since then, the durable one is not taken again under the scheduled name.
    const untilNext = schedule.next === undefined ? undefined : schedule.next - now()
    if (!kinds.includes('hot') && scheduled.length < ofSchedule.length) return untilNext
    const taken = {
      createdAt: Date.parse(database.metadata.creationTimestamp ?? ''),
      doneUpTo: doneUpTo(database.status, scheduled, now()),
      requestedAt: scheduled.map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '')),
      isUnderWay: scheduled.some(isUnderWay),
    }
    const due = nextBackup(schedule, taken, { id, spreadMs, operatorStartedAt: this.#startedAt, now: now() })
    if (due === undefined) return untilNext
    if (due.takeAt > now()) return due.takeAt - now()
    if (await this.#isStillDue(database, due.dueAt)) await this.#create(database, id, due.dueAt, kinds)
    return untilNext
  }

  /** Creates the durable backup that starts the recovery window. @returns after how many ms to check again */
  async #createBase(database: ManagedDatabase, id: string, backups: readonly Backup[]): Promise<number | undefined> {
    const { hasArchive, now } = this.#options
    if (!hasArchive || !database.spec.backup.durable || !isServing(database)) return undefined
    const next = nextBase(database, backups, now())
    if (next === undefined) return undefined
    if (next.takeAt > now()) return next.takeAt - now()
    const names = { name: next.name, kind: 'durable' as const, databaseId: id, backupId: this.#newId() }
    await createIfAbsent(this.#cluster, 'Backup', backupDraft(database, names))
    return undefined
  }

  /** The kinds to take, in order. The last one is named as scheduled: the hot one, if both are taken. */
  #kindsOf(database: ManagedDatabase): Kind[] {
    const { caches, hasArchive } = this.#options
    if (!isServing(database)) return []
    const isDurable = hasArchive && database.spec.backup.durable
    return [...(isDurable ? ['durable' as const] : []), ...(canBeHot(caches, database) ? ['hot' as const] : [])]
  }

  /** Only the last backup has the scheduled name, so that the next pass continues after a crash before it. */
  async #create(database: ManagedDatabase, id: string, dueAt: number, kinds: readonly Kind[]): Promise<void> {
    const { name } = database.metadata
    for (const kind of kinds) {
      const isLast = kind === kinds.at(-1)
      const backupName = isLast ? scheduledName(name, dueAt) : durableName(name, dueAt)
      const draft = backupDraft(database, { name: backupName, kind, databaseId: id, backupId: this.#newId() })
      if (await createIfAbsent(this.#cluster, 'Backup', draft)) continue
      const found = await this.#cluster.get('Backup', { namespace: database.metadata.namespace, name: backupName })
      if (found !== undefined && (found.spec.purpose !== 'scheduled' || found.spec.kind !== kind))
        this.#options.logger.warn(
          { backup: keyOf(found), kind },
          'a backup with the name of the scheduled one exists: the scheduled backup is not taken',
        )
    }
  }

  /** Reads the cluster, because the cache may not show that another leader created the backup and a user deleted it. */
  async #isStillDue({ metadata }: ManagedDatabase, dueAt: number): Promise<boolean> {
    const current = await this.#cluster.get('ManagedDatabase', metadata)
    if (current === undefined || current.metadata.uid !== metadata.uid) return false
    if (current.metadata.deletionTimestamp !== undefined) return false
    return (recordedAt(current.status) ?? Number.NEGATIVE_INFINITY) < dueAt
  }
}

/** Enqueues the databases that a change concerns. @returns the functions that stop the watches */
function follow({ caches, clock }: ScheduleOptions, enqueue: (key: string) => void): (() => void)[] {
  const all = () => {
    for (const database of caches.databases.list()) enqueue(keyOf(database))
  }
  return [
    caches.databases.onChange(({ object }) => enqueue(keyOf(object))),
    caches.backups.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.regions.onChange(all),
    caches.snapshots.onServed(all),
    clock.onChange(all),
  ]
}

/** Whether an open restore, or a database or branch that is being created, reads from the backup. */
const isInUse = (caches: Caches, backup: Backup): boolean =>
  [caches.restores, caches.databases, caches.branches].some(cache => cache.byIndex('source', keyOf(backup)).length > 0)

type Kind = Backup['spec']['kind']

function canBeHot(caches: Caches, database: ManagedDatabase): boolean {
  const { region } = database.spec
  const refusal = snapshotRefusal(region, caches.regions.get({ name: region }))
  return caches.snapshots.served === 'served' && refusal === undefined
}

function backupDraft(
  { metadata }: ManagedDatabase,
  { name: backupName, kind, databaseId, backupId }: { name: string; kind: Kind; databaseId: string; backupId: string },
): Draft<'Backup'> {
  const { namespace = '', name, labels: objectLabels } = metadata
  const tenant = objectLabels?.[labels.tenant]
  return {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: backupName,
      namespace,
      labels: {
        [labels.id]: backupId,
        [labels.managedBy]: managedByEspalier,
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
      finalizers: [teardownFinalizer],
    },
    spec: { databaseName: name, databaseId, kind, purpose: 'scheduled' },
  }
}
