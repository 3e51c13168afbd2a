/**
 * The controller of Backups: each pass observes one backup, plans, does what the plan names and writes the status once, if
 * it changed. But for checkpoints under way it holds nothing; those are made again by whoever goes on.
 */
import { type AnyObject, isClusterError } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import { type Backup, canonicalJson, labels, type ManagedDatabase } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { yes } from '../objects/conditions.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'
import { withFindings } from '../objects/run-status.ts'
import { createCheckpoints } from './checkpoints.ts'
import { createBackupMetrics } from './metrics.ts'
import { backupsOf, isUnderWay, type Observation, observe } from './observe.ts'
import { perform } from './perform.ts'
import type { BackupDeadlines } from './plan/actions.ts'
import { type Plan, plan } from './plan/index.ts'
import { failed } from './plan/status.ts'
import { notVerified, outcomeOf } from './plan/verification.ts'
import { createTurns } from './verification/turns.ts'

type BackupControllerOptions = PostgresControllerOptions & {
  deadlines: BackupDeadlines & { checkpointMs: number }
  /** A Postgres that is said to serve did not answer: it is probed soon. */
  suspect: (kind: 'ManagedDatabase' | 'Branch', key: string) => void
}

export function startBackupController(options: BackupControllerOptions): { stop(): Promise<void> } {
  const { caches, keys, accessFor, deadlines, events, metrics, logger, now, signal, images, pods } = options
  const cluster = caches.writeThrough(options.cluster)
  const backupMetrics = createBackupMetrics(metrics)
  let controller: Controller | undefined
  const enqueue = (key: string) => controller?.enqueue(key)
  const checkpoints = createCheckpoints({ stallMs: deadlines.checkpointMs, onEnd: enqueue, logger, now })
  const turns = createTurns(caches)
  const observer = { caches, cluster, checkpoints, turns, keys }
  const access = () => {
    const { authority } = keys()
    return authority && accessFor(authority)
  }
  const executor = { cluster, checkpoints, access, images, pods, suspect: options.suspect, newId: createIds(now) }

  const asksNothing = (backup: Backup, { actions, status }: Plan): boolean =>
    actions.length === 0 && canonicalJson(status) === canonicalJson(backup.status ?? {})

  /** The whole of a backup that has ended is read where there is something to write. */
  const wholeOf = async (backup: Backup): Promise<Backup | undefined> => {
    const found = await cluster.get('Backup', backup.metadata)
    return found?.metadata.uid === backup.metadata.uid ? found : undefined
  }

  const reconcile = async (key: string) => {
    const cached = caches.backups.get(parseKey(key))
    if (cached === undefined || !isUnderWay(cached)) checkpoints.forget(key)
    if (cached === undefined) return undefined
    if (isUnderWay(cached) && lacksDatabaseId(cached)) return awaitDatabase(cached)
    const seen = await observe(observer, cached)
    const decided = decide(cached, seen)
    if (asksNothing(cached, decided)) return wake(decided)
    if (isUnderWay(cached)) return carryOut(cached, seen, decided)
    const whole = await wholeOf(cached)
    if (whole === undefined) return undefined
    const again = await observe(observer, whole)
    return carryOut(whole, again, decide(whole, again))
  }

  const decide = (backup: Backup, { observed }: Observation): Plan => {
    const decided = plan(observed, now(), deadlines)
    const database = caches.databases.get({ namespace: backup.metadata.namespace, name: backup.spec.databaseName })
    return { ...decided, status: withReplacedDatabase(decided.status, backup, database, now()) }
  }

  const awaitDatabase = async (backup: Backup): Promise<undefined> => {
    const found = await fillInDatabaseId(cluster, backup)
    if (found === 'filled') return
    const status = { ...backup.status, phase: 'pending' as const }
    await report(backup, withFindings(backup, status, { Ready: found, Progressing: found }, now()))
  }

  const carryOut = async (backup: Backup, seen: Observation, { actions, status, wakeAt }: Plan) => {
    for (const action of actions) {
      const refusal = await perform(executor, seen, action).catch(async error => {
        await reportRefusal(backup, status, error)
        throw error
      })
      if (refusal !== undefined && action.do === 'begin-verification') {
        await report(backup, { ...status, ...notVerified(backup, refusal.message, now()) })
        return undefined
      }
      if (refusal !== undefined) {
        await report(backup, { ...failed(backup, refusal, now()), taskId: seen.observed.taskId })
        return undefined
      }
      // The object is another one by then; the next pass sees it.
      if (action.do === 'identify' || action.do === 'release') return undefined
    }
    await report(backup, status)
    return wake({ wakeAt })
  }

  /** What keeps a backup from being deleted: nothing else would say it. */
  const reportRefusal = async (backup: Backup, status: NonNullable<Backup['status']>, error: unknown) => {
    if (backup.metadata.deletionTimestamp === undefined) return
    if (!isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')) return
    await report(backup, withFindings(backup, status, { Progressing: yes('Refused', error.message) }, now()))
  }

  const wake = ({ wakeAt }: Pick<Plan, 'wakeAt'>) =>
    wakeAt === undefined ? undefined : { requeueAfterMs: Math.max(0, wakeAt - now()) }

  const report = async (backup: Backup, status: NonNullable<Backup['status']>) => {
    if (canonicalJson(status) === canonicalJson(backup.status ?? {})) return
    await cluster.replaceStatus('Backup', { ...backup, status })
    if (status.verification !== backup.status?.verification) tellVerification(backup, status)
    if (status.phase === backup.status?.phase) return
    if (status.phase === 'completed') events.record(backup, 'Normal', 'BackupCompleted', 'the backup is completed')
    if (status.phase === 'failed') tellFailure(backup, status)
    if (status.finishedAt !== undefined && backup.status?.finishedAt === undefined)
      backupMetrics.ended(backup, status.phase ?? '', now())
  }

  const tellVerification = (backup: Backup, { verification, verificationResult }: NonNullable<Backup['status']>) => {
    if (verification === 'pending' || verification === undefined || verificationResult === undefined) return
    const { error } = verificationResult
    backupMetrics.verified(backup, outcomeOf(verificationResult))
    if (error === undefined) events.record(backup, 'Normal', 'BackupVerified', 'a copy of it is sound')
    else {
      events.record(backup, 'Warning', 'BackupNotVerified', error)
      tellDatabase(backup, 'BackupNotVerified', error)
    }
  }

  /** Whoever looks after the database is to hear of it, too. */
  const tellDatabase = (backup: Backup, reason: string, message: string) => {
    const { namespace } = backup.metadata
    const database = caches.databases.get({ namespace, name: backup.spec.databaseName })
    if (database?.metadata.labels?.[labels.id] === backup.spec.databaseId)
      events.record(database, 'Warning', reason, `backup ${backup.metadata.name}: ${message}`)
  }

  const tellFailure = (backup: Backup, { error = '', conditions = [] }: NonNullable<Backup['status']>) => {
    const reason = conditions.find(({ type }) => type === 'Ready')?.reason ?? 'BackupFailed'
    events.record(backup, 'Warning', reason, error)
    tellDatabase(backup, 'BackupFailed', error)
  }

  controller = startController({
    name: 'backup',
    workers: options.workers,
    reconcile: whereServed(caches, caches.backups, reconcile),
    keys: () => caches.backups.list().filter(isUnfinished).map(keyOf),
    signal,
    logger,
    metrics,
  })
  /** What ends, or goes, makes room for the next. */
  const ofDatabase = (namespace: string | undefined, databaseId: string) => {
    for (const backup of backupsOf(caches, namespace, databaseId)) if (isUnderWay(backup)) enqueue(keyOf(backup))
  }
  const ofDatabaseItself = ({ metadata }: ManagedDatabase) =>
    ofDatabase(metadata.namespace, metadata.labels?.[labels.id] ?? '')
  const unfollow = [
    onOtherDatabase(caches.databases, key => caches.backups.byIndex('databaseName', key), enqueue),
    caches.backups.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      const isChecked = type === 'deleted' || object.status?.verification !== 'pending'
      if (isChecked && previous?.status?.verification === 'pending') for (const next of turns.next()) enqueue(next)
      if (!isUnderWay(object)) ofDatabase(object.metadata.namespace, object.spec.databaseId)
    }),
    caches.snapshots.onChange(({ object }) => {
      const owner = ownerKindOf(object) === 'Backup' ? ownerKeyOf(object) : undefined
      if (owner !== undefined) enqueue(owner)
    }),
    ...[caches.pods, caches.claims, caches.networkPolicies].map(cache =>
      cache.onChange(({ object }: { object: Pick<AnyObject, 'metadata'> }) => {
        const owner = ownerKindOf(object) === 'Backup' ? ownerKeyOf(object) : undefined
        if (owner !== undefined) enqueue(owner)
      }),
    ),
    caches.snapshots.onServed(() => {
      for (const backup of caches.backups.list()) enqueue(keyOf(backup))
    }),
    caches.databases.onChange(({ object }) => {
      ofDatabaseItself(object)
      const { dataSource } = object.spec
      if (dataSource !== undefined) enqueue(`${object.metadata.namespace}/${dataSource.backupName}`)
    }),
    caches.branches.onChange(({ object }) => ofDatabase(object.metadata.namespace, object.spec.databaseId)),
    caches.restores.onChange(({ object: { metadata, spec } }) => {
      ofDatabase(metadata.namespace, spec.databaseId)
      enqueue(`${metadata.namespace}/${spec.target.backupName}`)
    }),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'backup') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
  ]
  return {
    stop: async () => {
      for (const end of unfollow) end()
      turns.stop()
      await controller?.stop()
      await checkpoints.stop()
      backupMetrics.stop()
    },
  }
}

/** Something is still to come of it. */
const isUnfinished = (backup: Backup): boolean =>
  isUnderWay(backup) ||
  backup.metadata.deletionTimestamp !== undefined ||
  backup.status?.taskId !== undefined ||
  backup.status?.verification === 'pending'
