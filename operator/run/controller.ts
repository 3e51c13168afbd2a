/**
 * The controller of a kind whose objects run once and end. Each pass observes one run, plans, performs the planned
 * actions, and writes the status once, if it changed. If an error makes a pass fail, a condition of the run reports it.
 */
import { keyOf } from '../../cluster/informer/index.ts'
import { type Controller, type ReconcileResult, startController } from '../../controller/index.ts'
import { canonicalJson } from '../../crds/index.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { withFindings } from '../objects/run-status.ts'
import type { Run, RunKind, RunPlan, RunTools, StatusOf } from './kind.ts'
import { newProblem, withoutProblem, withProblem } from './problem.ts'

/** `create`: creates the kind, with the tools from its controller. */
export function startRunController<R extends Run, Action, Seen>(
  options: PostgresControllerOptions,
  create: (tools: RunTools) => RunKind<R, Action, Seen>,
): { stop(): Promise<void> } {
  const runs = new RunController(options, create)
  return { stop: () => runs.stop() }
}

class RunController<R extends Run, Action, Seen> {
  readonly #options: PostgresControllerOptions
  readonly #kind: RunKind<R, Action, Seen>
  readonly #cluster: RunTools['cluster']
  readonly #controller: Controller
  readonly #unsubscribe: (() => void)[]

  constructor(options: PostgresControllerOptions, create: (tools: RunTools) => RunKind<R, Action, Seen>) {
    const { caches, metrics, logger, signal, workers } = options
    this.#options = options
    this.#cluster = caches.writeThrough(options.cluster)
    const enqueue = (key: string) => this.#controller.enqueue(key)
    const kind = create({ cluster: this.#cluster, enqueue })
    this.#kind = kind
    this.#controller = startController({
      name: kind.name,
      workers,
      reconcile: whereServed(caches, kind.runs, (key, passSignal) => this.#reconcile(key, passSignal)),
      keys: () => kind.keys(),
      limits: kind.limits,
      signal,
      logger,
      metrics,
    })
    const named = (key: string) => kind.runs.byIndex('databaseName', key)
    this.#unsubscribe = [onOtherDatabase(caches.databases, named, enqueue), ...kind.follow()]
  }

  async stop(): Promise<void> {
    for (const end of this.#unsubscribe) end()
    await this.#controller.stop()
    await this.#kind.stop()
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult> {
    const kind = this.#kind
    const run = await kind.find(key)
    if (run === undefined) {
      await kind.missing(key)
      return undefined
    }
    if (kind.isOpen(run) && lacksDatabaseId(run)) return this.#awaitDatabase(run)
    // The cache may not have all fields of an ended run. A write needs them all.
    let complete = kind.isOpen(run) ? run : undefined
    try {
      const seen = await kind.observe(run, key, signal)
      if (seen === undefined) return undefined
      const decided = this.#decide(run, seen)
      if (changesNothing(run, decided)) return this.#requeue(seen, decided)
      if (complete !== undefined) return await this.#carryOut(complete, seen, decided)
      complete = await kind.complete(run)
      if (complete === undefined) return undefined
      if (complete === run) return await this.#carryOut(complete, seen, decided)
      const again = await kind.observe(complete, key, signal)
      return again && (await this.#carryOut(complete, again, this.#decide(complete, again)))
    } catch (error) {
      if (complete !== undefined) await this.#reportProblem(complete, error)
      throw error
    }
  }

  #decide(run: R, seen: Seen): RunPlan<R, Action> {
    const decided = this.#kind.plan(seen)
    const { caches, now } = this.#options
    const database = caches.databases.get({ namespace: run.metadata.namespace, name: run.spec.databaseName })
    return { ...decided, status: withoutProblem(withReplacedDatabase(decided.status, run, database, now())) }
  }

  async #carryOut(run: R, seen: Seen, decided: RunPlan<R, Action>): Promise<ReconcileResult> {
    for (const action of decided.actions) {
      const done = await this.#kind.perform(seen, action, decided)
      if (done === 'replaced') return undefined
      if (done !== 'done') {
        await this.#report(run, done.status)
        return undefined
      }
    }
    await this.#report(run, decided.status)
    return this.#requeue(seen, decided)
  }

  /** Sets the database's id, or reports that there is no database with that name yet. */
  async #awaitDatabase(run: R): Promise<undefined> {
    const found = await fillInDatabaseId(this.#cluster, run)
    if (found === 'filled') return
    const status: { phase: 'pending'; startedAt?: string | undefined } = { ...run.status, phase: 'pending' }
    const findings = { Ready: found, Progressing: found }
    // The fields did not change.
    await this.#report(run, withFindings(run, status, findings, this.#options.now()) as StatusOf<R>)
  }

  #requeue(seen: Seen, { requeueAt }: RunPlan<R, Action>): ReconcileResult {
    const requeueMs = requeueAt === undefined ? undefined : Math.max(0, requeueAt - this.#options.now())
    const known = [this.#kind.probeMs(seen), requeueMs].filter(ms => ms !== undefined)
    return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) }
  }

  async #report(run: R, status: StatusOf<R>) {
    if (canonicalJson(status) === canonicalJson(run.status ?? {})) return
    await this.#kind.writeStatus(run, status)
    this.#kind.reported(run, status)
  }

  /** The error that made the pass fail is more important than an error here. */
  async #reportProblem(run: R, error: unknown) {
    const { events, logger, now } = this.#options
    const before = (run.status ?? {}) as StatusOf<R> // every field is optional
    const status = withProblem({ metadata: run.metadata, status: before }, error, this.#kind.texts(run), now())
    if (status === undefined || canonicalJson(status) === canonicalJson(before)) return
    try {
      await this.#kind.writeStatus(run, status)
      const found = newProblem(before, status)
      if (found !== undefined) events.record(run, 'Warning', found.reason, found.message)
    } catch (failure) {
      logger.warn(
        { key: keyOf(run), err: failure },
        `the condition that reports a delayed ${this.#kind.name} could not be written`,
      )
    }
  }
}

const changesNothing = <R extends Run, Action>(run: R, { actions, status }: RunPlan<R, Action>): boolean =>
  actions.length === 0 && canonicalJson(status) === canonicalJson(run.status ?? {})
