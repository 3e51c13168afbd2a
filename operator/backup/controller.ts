/**
 * The Backup kind for the controller in run/controller.ts. Its only in-memory state is the running checkpoints: a new
 * leader starts them again.
 */
import type { Cluster } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Backup, canProve, labels } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import type { ArchiveWays } from '../archive/ways.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { startRunController } from '../run/controller.ts'
import type { Done, RunKind, RunTools } from '../run/kind.ts'
import type { ProblemTexts } from '../run/problem.ts'
import { perform } from './act.ts'
import { createCheckpoints } from './checkpoints.ts'
import { createBackupMetrics } from './metrics.ts'
import { isUnderWay, type Observation, observe, proofCandidates } from './observe.ts'
import { deleteOrphanedCopies } from './orphans.ts'
import type { Action, BackupDeadlines, Plan } from './plan/actions.ts'
import { plan } from './plan/index.ts'
import { failed, notYet, type Status } from './plan/status.ts'
import { notVerified, outcomeOf } from './plan/verification.ts'
import { oldestProofSeconds } from './verification/proof.ts'
import { createVerificationSlots } from './verification/slots.ts'
import { follow } from './watches.ts'

type BackupControllerOptions = PostgresControllerOptions & {
  deadlines: BackupDeadlines & { checkpointMs: number }
  /** Called if a Postgres that is reported as Ready did not answer. Its controller then probes it soon. */
  reportUnreachable: (kind: 'ManagedDatabase' | 'Branch', key: string) => void
  /** Undefined if the installation has no archive, or its CA is missing at the moment. */
  archive: () => ArchiveWays | undefined
}

export const startBackupController = (options: BackupControllerOptions): { stop(): Promise<void> } =>
  startRunController(options, tools => new Backups(options, tools))

const texts: ProblemTexts = { notYet, quota: message => `the quota has no space: ${message}` }

class Backups implements RunKind<Backup, Action, Observation> {
  readonly name = 'backup'
  readonly runs: BackupControllerOptions['caches']['backups']
  readonly #options: BackupControllerOptions
  readonly #cluster: Cluster
  readonly #enqueue: RunTools['enqueue']
  readonly #metrics: ReturnType<typeof createBackupMetrics>
  readonly #checkpoints: ReturnType<typeof createCheckpoints>
  readonly #observer: Parameters<typeof observe>[0]
  readonly #executor: Parameters<typeof perform>[0]
  readonly #slots: ReturnType<typeof createVerificationSlots>

  constructor(options: BackupControllerOptions, { cluster, enqueue }: RunTools) {
    const {
      caches,
      keys,
      accessFor,
      deadlines,
      metrics,
      logger,
      now,
      images,
      pods,
      reportUnreachable,
      archive,
      signal,
    } = options
    this.#options = options
    this.#cluster = cluster
    this.#enqueue = enqueue
    this.runs = caches.backups
    this.#metrics = createBackupMetrics(metrics, () => oldestProofSeconds(proofCandidates(caches), now()))
    const checkpoints = createCheckpoints({ stallMs: deadlines.checkpointMs, onEnd: enqueue, logger, now })
    this.#checkpoints = checkpoints
    this.#slots = createVerificationSlots(caches)
    const access = () => {
      const { authority } = keys()
      return authority && accessFor(authority)
    }
    this.#observer = { caches, cluster, checkpoints, slots: this.#slots, keys, archive, now }
    this.#executor = {
      ...{ cluster, checkpoints, access, images, pods, keys, now, reportUnreachable, archive, signal },
      newId: createIds(now),
    }
  }

  keys = () => this.runs.list().filter(isUnfinished).map(keyOf)
  isOpen = isUnderWay
  texts = () => texts
  probeMs = () => undefined
  follow = () => follow(this.#options.caches, this.#slots, this.#enqueue)
  writeStatus = (backup: Backup, status: Status) => this.#cluster.replaceStatus('Backup', { ...backup, status })

  async find(key: string) {
    const cached = this.runs.get(parseKey(key))
    if (cached === undefined || !isUnderWay(cached)) this.#checkpoints.forget(key)
    return cached
  }

  missing(key: string) {
    return deleteOrphanedCopies(this.#options.caches, this.#cluster, key)
  }

  /** Reads the full Backup before a write, because the cache has only a part of an ended one. */
  async complete(backup: Backup) {
    const found = await this.#cluster.get('Backup', backup.metadata)
    return found?.metadata.uid === backup.metadata.uid ? found : undefined
  }

  observe(backup: Backup, _key: string, signal: AbortSignal) {
    return observe(this.#observer, backup, signal)
  }

  plan({ observed }: Observation): Plan {
    return plan(observed, this.#options.now(), this.#options.deadlines)
  }

  async perform(seen: Observation, action: Action, { status }: { status: Status }): Promise<Done<Backup>> {
    const { backup, taskId } = seen.observed
    const refusal = await perform(this.#executor, seen, action)
    const now = this.#options.now()
    if (refusal !== undefined && action.do === 'begin-verification')
      return { status: { ...status, ...notVerified(backup, refusal.message, now) } }
    if (refusal !== undefined) return { status: { ...failed(backup, refusal, now), taskId } }
    return action.do === 'identify' || action.do === 'remove-finalizer' ? 'replaced' : 'done'
  }

  reported(backup: Backup, status: Status) {
    if (status.verification !== backup.status?.verification) this.#recordVerification(backup, status)
    if (status.phase === backup.status?.phase) return
    if (status.phase === 'completed')
      this.#options.events.record(backup, 'Normal', 'BackupCompleted', 'the backup is completed')
    if (status.phase === 'failed') this.#recordFailure(backup, status)
    if (status.finishedAt !== undefined && backup.status?.finishedAt === undefined)
      this.#metrics.ended(backup, status.phase ?? '', this.#options.now())
  }

  async stop() {
    this.#slots.stop()
    await this.#checkpoints.stop()
    this.#metrics.stop()
  }

  #recordVerification(backup: Backup, { verification, verificationResult }: Status) {
    if (verification === 'pending' || verification === undefined || verificationResult === undefined) return
    const { error } = verificationResult
    this.#metrics.verified(backup, outcomeOf(verificationResult))
    if (error === undefined)
      this.#options.events.record(backup, 'Normal', 'BackupVerified', 'a copy of the backup is intact')
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

  #recordFailure(backup: Backup, { error = '', conditions = [] }: Status) {
    const reason = conditions.find(({ type }) => type === 'Ready')?.reason ?? 'BackupFailed'
    this.#options.events.record(backup, 'Warning', reason, error)
    this.#recordOnDatabase(backup, 'BackupFailed', error)
  }
}

/** Whether the backup will still change. */
const isUnfinished = (backup: Backup): boolean =>
  isUnderWay(backup) ||
  backup.metadata.deletionTimestamp !== undefined ||
  backup.status?.taskId !== undefined ||
  backup.status?.verification === 'pending' ||
  canProve(backup) ||
  (backup.status?.phase === 'failed' && backup.status.incarnation !== undefined)
