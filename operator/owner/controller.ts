/**
 * The controller of owners. Each pass observes one object, plans, performs the plan's actions, and writes the status
 * once, if it changed. It stores nothing that the next pass, or another process, cannot determine again.
 */
import type { Cluster, Kinds } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, lowPriority, type ReconcileResult, startController } from '../../controller/index.ts'
import { canonicalJson } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { notServedMessage } from '../access/bindings.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { type Finding, namespaceNotServed, no } from '../objects/conditions.ts'
import { withUpdatedAt } from '../objects/updated-at.ts'
import type { HasPgvector, ServiceOptions } from '../service/settings.ts'
import { perform as performInstance } from '../workload/act.ts'
import type { OwnerObserver } from '../workload/observe.ts'
import type { Observed } from '../workload/observed.ts'
import type { InstanceFindings } from '../workload/plan/findings.ts'
import { createWorkloads } from '../workload/workloads.ts'
import { execute, type Outcome, worst } from './execute.ts'
import { finishDeletion, identify } from './finalizer.ts'
import type { Executor, Kind, OwnerAction, OwnerName, OwnerStatus, Pass, Plan, Result } from './kind.ts'
import { deleteRoutes } from './orphaned-routes.ts'
import { withProblems } from './problems.ts'
import { reportStarted, startedByTurn } from './turn.ts'
import { followOwners } from './watches.ts'

export type OwnerControllerOptions = PostgresControllerOptions & {
  /** How many certificates are reissued at the same time. */
  certificatesAtOnce: number
  /** Settings and images of services. */
  services: ServiceOptions
  hasPgvector: HasPgvector
}

export type OwnerController = {
  stop(): Promise<void>
  /** Probes the Postgres of this object soon, because a client could not connect to it. */
  reportUnreachable(key: string): void
}

/**
 * How often a pass checks for a free port without an event. A port that the operator avoids becomes free after some
 * time.
 */
const portMs = 30_000
/** The longest wait: Node's timers are limited to 24 days. */
const longestMs = 24 * 3600_000

export function startOwnerController<K extends OwnerName, O extends Observed, A extends { do: string }>(
  options: OwnerControllerOptions,
  kind: Kind<K, O, A>,
): OwnerController {
  const owners = new RunningController(options, kind)
  const { awaitingGateways, awaitingPort } = owners
  const unsubscribe = followOwners(options, kind, {
    enqueue: key => owners.enqueue(key),
    later: key => owners.later(key),
    reportUnreachable: key => owners.reportUnreachable(key),
    reported: keys => owners.reported(keys),
    awaitingGateways,
    awaitingPort,
  })
  return {
    reportUnreachable: key => owners.reportUnreachable(key),
    stop: async () => {
      for (const end of unsubscribe) end()
      await owners.stop()
    },
  }
}

class RunningController<K extends OwnerName, O extends Observed, A extends { do: string }> {
  /** The keys of objects that wait for gateways, or for a free port of their region. */
  readonly awaitingGateways = new Set<string>()
  readonly awaitingPort = new Set<string>()
  readonly #options: OwnerControllerOptions
  readonly #kind: Kind<K, O, A>
  readonly #cluster: Cluster
  readonly #workloads: ReturnType<typeof createWorkloads>
  readonly #executor: Executor
  readonly #observer: OwnerObserver
  readonly #controller: Controller

  constructor(options: OwnerControllerOptions, kind: Kind<K, O, A>) {
    const { caches, images, pods, services, hasPgvector, now, clock, workers, signal, logger, metrics } = options
    this.#options = options
    this.#kind = kind
    this.#cluster = caches.writeThrough(options.cluster)
    this.#workloads = createWorkloads({ ...options, cluster: this.#cluster, enqueue: key => this.enqueue(key) })
    this.#executor = { ...this.#workloads.executor, newId: createIds(now) }
    this.#observer = { caches, cluster: this.#cluster, images, pods, services, hasPgvector, now, clock }
    this.#controller = startController({
      name: kind.name,
      workers,
      reconcile: whereServed(
        caches,
        kind.objects,
        (key, passSignal) => this.#reconcile(key, passSignal),
        object => this.#reportNotServed(object),
      ),
      keys: () => kind.objects.list().map(keyOf),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key)
  }

  /** Enqueues at low priority. */
  later(key: string): void {
    this.#controller.enqueue(key, { priority: lowPriority })
  }

  reportUnreachable(key: string): void {
    this.#workloads.reportUnreachable(key)
    this.enqueue(key)
  }

  /** `keys`: all owners to which gateways currently cannot connect. */
  reported(keys: ReadonlySet<string>): void {
    this.#workloads.reported(keys)
  }

  async stop(): Promise<void> {
    await this.#controller.stop()
    await this.#workloads.stop()
    this.#kind.stop()
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const object = this.#kind.objects.get(parseKey(key))
    if (object === undefined) return this.#forget(key)
    const prepared = await this.#kind.prepare(this.#cluster, object)
    if (prepared === 'replaced') return undefined
    if (prepared !== 'ready') return this.#reportAwaited(object, prepared)
    const keys = this.#options.keys()
    const seen = await this.#kind.observe(this.#observer, object, keys, this.#workloads.prior(key))
    const observation = { ...seen, observed: this.#workloads.withQueue(key, seen.observed) }
    const plan = this.#kind.plan(observation.observed, this.#options.now())
    note(this.awaitingGateways, key, plan.awaitsGateways)
    const pass = this.#workloads.pass(key, observation, keys, signal)
    const outcome = await execute(plan.actions, action => this.#perform(pass, object, action))
    if (outcome.isReplaced) return undefined
    this.#notePort(key, outcome)
    await this.#reportPass(object, this.#statusAfter(plan, outcome))
    // If the status was not written, the next pass probes Postgres.
    return this.#requeueAfter(outcome, this.#workloads.requeueAfter(pass, plan))
  }

  #perform(pass: Pass<O>, object: Kinds[K], action: OwnerAction | A): Promise<Result<OwnerStatus<K>>> {
    const kind = this.#kind
    const { cluster, newId } = this.#executor
    if (kind.isOwnAction(action)) return kind.perform(this.#executor, pass, action)
    switch (action.do) {
      case 'identify':
        return identify(cluster, kind.kind, object, action.id ?? newId())
      case 'finish-deletion':
        return finishDeletion(cluster, kind, object, pass.observed)
      default:
        return performInstance(this.#executor, pass, action)
    }
  }

  #notePort(key: string, { awaitsPort, problems }: Outcome<OwnerStatus<K>>): void {
    if (awaitsPort && !this.awaitingPort.has(key))
      this.#options.logger.warn({ kind: this.#kind.kind, key, problems }, 'no port is free; waiting for a free port')
    note(this.awaitingPort, key, awaitsPort)
  }

  /** The planned status, with problems of the actions. */
  #statusAfter(plan: Plan<OwnerAction | A, OwnerStatus<K>>, outcome: Outcome<OwnerStatus<K>>): OwnerStatus<K> {
    const now = this.#options.now()
    const status = outcome.status ?? plan.status
    const conditions = withProblems(status.conditions ?? [], outcome.problems, (before, findings) =>
      this.#kind.nextConditions(before, findings, status.observedGeneration, now),
    )
    return { ...status, conditions }
  }

  /** Starts the restart in the region's window, if the owner has a slot. The next pass restarts Postgres. */
  async #reportPass(object: Kinds[K], status: OwnerStatus<K>): Promise<void> {
    const planned: Kinds[K] = { ...object, status }
    const maintenance = startedByTurn(this.#options, planned)
    await this.#report(object, maintenance === undefined ? status : { ...status, maintenance })
    if (maintenance !== undefined) reportStarted(this.#options, planned, maintenance)
  }

  #requeueAfter(
    { errors, awaitsPort, growthRefused }: Outcome<OwnerStatus<K>>,
    requeueMs: number | undefined,
  ): ReconcileResult {
    if (errors.length > 0) throw worst(errors)
    // The next pass reports the refusal.
    if (growthRefused) return { requeueAfterMs: 0 }
    if (!awaitsPort && requeueMs === undefined) return undefined
    return { requeueAfterMs: Math.min(awaitsPort ? portMs : longestMs, requeueMs ?? longestMs) }
  }

  /** Writes the status of an owner. No other code writes it in a pass. */
  async #report(object: Kinds[K], planned: OwnerStatus<K>): Promise<void> {
    const now = this.#options.now()
    // After the plan's updatedAt, because the kind may know a later change.
    const status = this.#kind.complete(object, withUpdatedAt(object.status, planned, now), now)
    if (canonicalJson(status) === canonicalJson(object.status ?? {})) return
    const written = await this.#cluster.replaceStatus(this.#kind.kind, { ...object, status })
    this.#kind.report(object, written, now)
  }

  async #reportAwaited(object: Kinds[K], found: Finding): Promise<undefined> {
    await this.#report(object, { ...this.#unplanned(object, { Ready: found, Progressing: found }), phase: 'creating' })
  }

  async #reportNotServed(object: Kinds[K]): Promise<void> {
    const found = no(namespaceNotServed, notServedMessage(object.metadata.namespace ?? ''))
    const status = this.#unplanned(object, { Ready: found })
    await this.#report(object, { ...status, phase: this.#kind.phaseNotServed(status) })
  }

  /** The status of an object that no pass has planned yet. */
  #unplanned({ metadata, status }: Kinds[K], findings: InstanceFindings): OwnerStatus<K> {
    const { generation } = metadata
    const before: OwnerStatus<K> = status ?? {}
    const conditions = this.#kind.nextConditions(before.conditions ?? [], findings, generation, this.#options.now())
    return { ...before, conditions }
  }

  async #forget(key: string): Promise<undefined> {
    this.#workloads.forget(key)
    this.awaitingGateways.delete(key)
    this.awaitingPort.delete(key)
    await deleteRoutes(this.#options.caches, this.#cluster, this.#kind.kind, key)
  }
}

function note(keys: Set<string>, key: string, isIn: boolean): void {
  if (isIn) keys.add(key)
  else keys.delete(key)
}
