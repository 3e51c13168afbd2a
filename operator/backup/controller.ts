/**
 * The controller of Backups: each pass observes one backup, plans, does what the plan names and writes the status once, if
 * it changed. But for checkpoints under way it holds nothing; those are made again by whoever goes on.
 */
import type { AnyObject, Cluster } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import { type Backup, canonicalJson, labels, type ManagedDatabase } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { whereServed } from '../access/where-served.ts'
import type { Caches } from '../caches.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'
import { withFindings } from '../objects/run-status.ts'
import { newTrouble, type TroubleWords, troubled, untroubled } from '../run/trouble.ts'
import { createCheckpoints } from './checkpoints.ts'
import { createBackupMetrics } from './metrics.ts'
import { backupsOf, isUnderWay, type Observation, observe } from './observe.ts'
import { perform } from './perform.ts'
import type { BackupDeadlines } from './plan/actions.ts'
import { type Plan, plan } from './plan/index.ts'
import { failed, notYet } from './plan/status.ts'
import { notVerified, outcomeOf } from './plan/verification.ts'
import { createTurns } from './verification/turns.ts'

type BackupControllerOptions = PostgresControllerOptions & {
  deadlines: BackupDeadlines & { checkpointMs: number }
  /** A Postgres that is said to serve did not answer: it is probed soon. */
  suspect: (kind: 'ManagedDatabase' | 'Branch', key: string) => void
}

const words: TroubleWords = { notYet, quota: message => `the quota has no space: ${message}` }

export function startBackupController(options: BackupControllerOptions): { stop(): Promise<void> } {
  const backups = new BackupController(options)
  const unfollow = follow(options.caches, backups)
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await backups.stop()
    },
  }
}

class BackupController {
  readonly #options: BackupControllerOptions
  readonly #cluster: Cluster
  readonly #metrics: ReturnType<typeof createBackupMetrics>
  readonly #checkpoints: ReturnType<typeof createCheckpoints>
  readonly #observer: Parameters<typeof observe>[0]
  readonly #executor: Parameters<typeof perform>[0]
  readonly #controller: Controller
  readonly turns: ReturnType<typeof createTurns>

  constructor(options: BackupControllerOptions) {
    const { caches, keys, accessFor, deadlines, metrics, logger, now, signal, images, pods, suspect } = options
    this.#options = options
    this.#cluster = caches.writeThrough(options.cluster)
    this.#metrics = createBackupMetrics(metrics)
    const stallMs = deadlines.checkpointMs
    this.#checkpoints = createCheckpoints({ stallMs, onEnd: key => this.enqueue(key), logger, now })
    this.turns = createTurns(caches)
    const access = () => {
      const { authority } = keys()
      return authority && accessFor(authority)
    }
    const [cluster, checkpoints] = [this.#cluster, this.#checkpoints]
    this.#observer = { caches, cluster, checkpoints, turns: this.turns, keys }
    this.#executor = { cluster, checkpoints, access, images, pods, suspect, newId: createIds(now) }
    this.#controller = startController({
      name: 'backup',
      workers: options.workers,
      reconcile: whereServed(caches, caches.backups, key => this.#reconcile(key)),
      keys: () => caches.backups.list().filter(isUnfinished).map(keyOf),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key)
  }

  async stop(): Promise<void> {
    this.turns.stop()
    await this.#controller.stop()
    await this.#checkpoints.stop()
    this.#metrics.stop()
  }

  /** The whole of a backup that has ended is read where there is something to write. */
  async #wholeOf(backup: Backup): Promise<Backup | undefined> {
    const found = await this.#cluster.get('Backup', backup.metadata)
    return found?.metadata.uid === backup.metadata.uid ? found : undefined
  }

  async #reconcile(key: string) {
    const cached = this.#options.caches.backups.get(parseKey(key))
    if (cached === undefined || !isUnderWay(cached)) this.#checkpoints.forget(key)
    if (cached === undefined) return undefined
    if (isUnderWay(cached) && lacksDatabaseId(cached)) return this.#awaitDatabase(cached)
    // Of one that is not under way the cache has not all that a write needs.
    let whole = isUnderWay(cached) ? cached : undefined
    try {
      const seen = await observe(this.#observer, cached)
      const decided = this.#decide(cached, seen)
      if (asksNothing(cached, decided)) return this.#wake(decided)
      if (whole !== undefined) return await this.#carryOut(whole, seen, decided)
      whole = await this.#wholeOf(cached)
      if (whole === undefined) return undefined
      const again = await observe(this.#observer, whole)
      return await this.#carryOut(whole, again, this.#decide(whole, again))
    } catch (error) {
      if (whole !== undefined) await this.#reportTrouble(whole, error)
      throw error
    }
  }

  #decide(backup: Backup, { observed }: Observation): Plan {
    const decided = plan(observed, this.#options.now(), this.#options.deadlines)
    const database = this.#options.caches.databases.get({
      namespace: backup.metadata.namespace,
      name: backup.spec.databaseName,
    })
    const status = withReplacedDatabase(decided.status, backup, database, this.#options.now())
    return { ...decided, status: untroubled(status) }
  }

  async #awaitDatabase(backup: Backup): Promise<undefined> {
    const found = await fillInDatabaseId(this.#cluster, backup)
    if (found === 'filled') return
    const status = { ...backup.status, phase: 'pending' as const }
    await this.#report(backup, withFindings(backup, status, { Ready: found, Progressing: found }, this.#options.now()))
  }

  async #carryOut(backup: Backup, seen: Observation, { actions, status, wakeAt }: Plan) {
    for (const action of actions) {
      const refusal = await perform(this.#executor, seen, action)
      if (refusal !== undefined && action.do === 'begin-verification') {
        await this.#report(backup, { ...status, ...notVerified(backup, refusal.message, this.#options.now()) })
        return undefined
      }
      if (refusal !== undefined) {
        await this.#report(backup, { ...failed(backup, refusal, this.#options.now()), taskId: seen.observed.taskId })
        return undefined
      }
      // The object is another one by then; the next pass sees it.
      if (action.do === 'identify' || action.do === 'release') return undefined
    }
    await this.#report(backup, status)
    return this.#wake({ wakeAt })
  }

  /** The error that counts is the one that made the pass fail. */
  async #reportTrouble(backup: Backup, error: unknown) {
    const { metadata, status: before = {} } = backup
    const status = troubled({ metadata, status: before }, error, words, this.#options.now())
    if (status === undefined || canonicalJson(status) === canonicalJson(before)) return
    try {
      await this.#cluster.replaceStatus('Backup', { ...backup, status })
      const found = newTrouble(before, status)
      if (found !== undefined) this.#options.events.record(backup, 'Warning', found.reason, found.message)
    } catch (failure) {
      this.#options.logger.warn({ backup: keyOf(backup), err: failure }, 'what delays a backup could not be written')
    }
  }

  #wake({ wakeAt }: Pick<Plan, 'wakeAt'>) {
    return wakeAt === undefined ? undefined : { requeueAfterMs: Math.max(0, wakeAt - this.#options.now()) }
  }

  async #report(backup: Backup, status: NonNullable<Backup['status']>) {
    if (canonicalJson(status) === canonicalJson(backup.status ?? {})) return
    await this.#cluster.replaceStatus('Backup', { ...backup, status })
    if (status.verification !== backup.status?.verification) this.#recordVerification(backup, status)
    if (status.phase === backup.status?.phase) return
    if (status.phase === 'completed')
      this.#options.events.record(backup, 'Normal', 'BackupCompleted', 'the backup is completed')
    if (status.phase === 'failed') this.#recordFailure(backup, status)
    if (status.finishedAt !== undefined && backup.status?.finishedAt === undefined)
      this.#metrics.ended(backup, status.phase ?? '', this.#options.now())
  }

  #recordVerification(backup: Backup, { verification, verificationResult }: NonNullable<Backup['status']>) {
    if (verification === 'pending' || verification === undefined || verificationResult === undefined) return
    const { error } = verificationResult
    this.#metrics.verified(backup, outcomeOf(verificationResult))
    if (error === undefined) this.#options.events.record(backup, 'Normal', 'BackupVerified', 'a copy of it is sound')
    else {
      this.#options.events.record(backup, 'Warning', 'BackupNotVerified', error)
      this.#recordOnDatabase(backup, 'BackupNotVerified', error)
    }
  }

  /** The event on the database, for its administrator. */
  #recordOnDatabase(backup: Backup, reason: string, message: string) {
    const { namespace } = backup.metadata
    const database = this.#options.caches.databases.get({ namespace, name: backup.spec.databaseName })
    if (database?.metadata.labels?.[labels.id] === backup.spec.databaseId)
      this.#options.events.record(database, 'Warning', reason, `backup ${backup.metadata.name}: ${message}`)
  }

  #recordFailure(backup: Backup, { error = '', conditions = [] }: NonNullable<Backup['status']>) {
    const reason = conditions.find(({ type }) => type === 'Ready')?.reason ?? 'BackupFailed'
    this.#options.events.record(backup, 'Warning', reason, error)
    this.#recordOnDatabase(backup, 'BackupFailed', error)
  }
}

/** Enqueues the backups that a change may concern. @returns what ends it */
function follow(caches: Caches, backups: BackupController): (() => void)[] {
  const enqueue = (key: string) => backups.enqueue(key)
  /** What ends, or goes, makes room for the next. */
  const ofDatabase = (namespace: string | undefined, databaseId: string) => {
    for (const backup of backupsOf(caches, namespace, databaseId)) if (isUnderWay(backup)) enqueue(keyOf(backup))
  }
  const ofDatabaseItself = ({ metadata }: ManagedDatabase) =>
    ofDatabase(metadata.namespace, metadata.labels?.[labels.id] ?? '')
  return [
    onOtherDatabase(caches.databases, key => caches.backups.byIndex('databaseName', key), enqueue),
    caches.backups.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      const isChecked = type === 'deleted' || object.status?.verification !== 'pending'
      if (isChecked && previous?.status?.verification === 'pending')
        for (const next of backups.turns.next()) enqueue(next)
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
}

const asksNothing = (backup: Backup, { actions, status }: Plan): boolean =>
  actions.length === 0 && canonicalJson(status) === canonicalJson(backup.status ?? {})

/** Something is still to come of it. */
const isUnfinished = (backup: Backup): boolean =>
  isUnderWay(backup) ||
  backup.metadata.deletionTimestamp !== undefined ||
  backup.status?.taskId !== undefined ||
  backup.status?.verification === 'pending'
