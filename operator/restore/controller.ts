/**
 * The Restore kind for the controller in run/controller.ts. The API requests a restore with an annotation on the
 * ManagedDatabase. The database controller then creates the Restore object.
 */
import type { Cluster } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { firstMember, isOpenRestore, type Restore } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import type { MemberPass } from '../member/act.ts'
import { MemberMemory } from '../member/memory.ts'
import type { Observer } from '../member/observe.ts'
import { startRunController } from '../run/controller.ts'
import type { Done, RunKind, RunTools } from '../run/kind.ts'
import type { ProblemTexts } from '../run/problem.ts'
import { perform } from './act.ts'
import type { Action, Plan, Status } from './actions.ts'
import type { ObservedCandidate } from './candidate.ts'
import { observe } from './observe.ts'
import type { Observed } from './observed.ts'
import { plan, type RestoreDeadlines } from './plan.ts'
import { quotaMessage } from './quota.ts'
import { notYet } from './status.ts'
import { follow } from './watches.ts'

type RestoreControllerOptions = PostgresControllerOptions & {
  deadlines: RestoreDeadlines
}

/** `pass`: the state of the candidate's reconcile. */
type Seen = { observed: Observed; candidate: { seen: ObservedCandidate; pass: MemberPass } | undefined }

/** The longest delay before a failed pass is retried. It is short, because users wait for a restore. */
const longestRetryMs = 30_000

export const startRestoreController = (options: RestoreControllerOptions): { stop(): Promise<void> } =>
  startRunController(options, tools => new Restores(options, tools))

class Restores implements RunKind<Restore, Action, Seen> {
  readonly name = 'restore'
  readonly limits = { maximumMs: longestRetryMs }
  readonly runs: RestoreControllerOptions['caches']['restores']
  readonly #options: RestoreControllerOptions
  readonly #cluster: Cluster
  readonly #enqueue: RunTools['enqueue']
  readonly #members: MemberMemory
  readonly #executor: Parameters<typeof perform>[0]
  readonly #observer: Observer

  constructor(options: RestoreControllerOptions, { cluster, enqueue }: RunTools) {
    const { caches, images, pods, now } = options
    this.#options = options
    this.#cluster = cluster
    this.#enqueue = enqueue
    this.runs = caches.restores
    this.#members = new MemberMemory({ ...options, cluster, enqueue })
    this.#executor = { cluster, candidate: this.#members.executor, newId: createIds(now) }
    this.#observer = { caches, cluster, images, pods, now }
  }

  keys = () => this.runs.list().map(keyOf)
  isOpen = isOpenRestore
  complete = async (restore: Restore) => restore
  follow = () => follow(this.#options.caches, this.#enqueue)
  stop = () => this.#members.stop()
  writeStatus = (restore: Restore, status: Status) => this.#cluster.replaceStatus('Restore', { ...restore, status })

  async find(key: string) {
    const cached = this.runs.get(parseKey(key))
    return cached && isOpenRestore(cached) ? this.#cluster.get('Restore', cached.metadata) : cached
  }

  async missing(key: string) {
    this.#members.forget(key)
  }

  async observe(restore: Restore, key: string, signal: AbortSignal): Promise<Seen | undefined> {
    const keys = this.#options.keys()
    if (keys.sealingKey === undefined || keys.authority === undefined) return undefined
    const { now, clock } = this.#options
    const prior = this.#members.prior(key, firstMember)
    const request = { restore, keys, prior, now: now(), clockDistrust: clock.distrust() }
    const { observed, candidate } = await observe(this.#observer, request)
    if (candidate === undefined) {
      this.#members.forget(key)
      return { observed, candidate: undefined }
    }
    const pass = this.#members.pass(key, candidate.member, keys, signal)
    return { observed, candidate: { seen: candidate, pass } }
  }

  plan({ observed }: Seen): Plan {
    return plan(observed, this.#options.now(), this.#options.deadlines)
  }

  async perform({ observed, candidate }: Seen, action: Action): Promise<Done<Restore>> {
    await perform(this.#executor, observed, candidate?.pass, action)
    return action.do === 'add-finalizer' || action.do === 'remove-finalizer' || action.do === 'delete-restore'
      ? 'replaced'
      : 'done'
  }

  probeMs({ candidate }: Seen) {
    if (candidate === undefined) return undefined
    const { awaited, plan } = candidate.seen
    const waits = { awaitsPostgres: awaited, configurationDigest: plan.desired.configurationDigest }
    const at = this.#members.probe(candidate.pass, waits)
    return at === undefined ? undefined : Math.max(0, at - this.#options.now())
  }

  texts({ metadata, spec }: Restore): ProblemTexts {
    const database = this.#options.caches.databases.get({ namespace: metadata.namespace, name: spec.databaseName })
    return { notYet, quota: message => quotaMessage(message, database) }
  }

  reported(restore: Restore, { phase, error, conditions }: Status) {
    if (phase === restore.status?.phase) return
    const { events, logger } = this.#options
    if (phase === 'completed') events.record(restore, 'Normal', 'RestoreCompleted', 'the data are restored')
    if (phase === 'failed') events.record(restore, 'Warning', conditions?.[0]?.reason ?? 'RestoreFailed', error ?? '')
    logger.info({ restore: keyOf(restore), phase, error }, 'the phase of a restore changed')
  }
}
