/**
 * The controller of a kind whose objects run once and end. Each pass observes one run, plans, does what the plan names and writes
 * the status once, if it changed. What makes a pass fail is reported in a condition of the run.
 */
import { keyOf } from '../../cluster/informer/index.ts'
import { type Controller, type ReconcileResult, startController } from '../../controller/index.ts'
import { canonicalJson } from '../../crds/index.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { withFindings } from '../objects/run-status.ts'
import type { Run, RunKind, RunPlan, RunTools, StatusOf } from './kind.ts'
import { newTrouble, troubled, untroubled } from './trouble.ts'

/** `create`: makes the kind, with what it needs of its controller. */
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
  readonly #unfollow: (() => void)[]

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
    this.#unfollow = [onOtherDatabase(caches.databases, named, enqueue), ...kind.follow()]
  }

  async stop(): Promise<void> {
    for (const end of this.#unfollow) end()
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
    // Of one that has ended the cache may not have all that a write needs.
    let whole = kind.isOpen(run) ? run : undefined
    try {
      const seen = await kind.observe(run, key, signal)
      if (seen === undefined) return undefined
      const decided = this.#decide(run, seen)
      if (asksNothing(run, decided)) return this.#wake(seen, decided)
      if (whole !== undefined) return await this.#carryOut(whole, seen, decided)
      whole = await kind.whole(run)
      if (whole === undefined) return undefined
      if (whole === run) return await this.#carryOut(whole, seen, decided)
      const again = await kind.observe(whole, key, signal)
      return again && (await this.#carryOut(whole, again, this.#decide(whole, again)))
    } catch (error) {
      if (whole !== undefined) await this.#reportTrouble(whole, error)
      throw error
    }
  }

  #decide(run: R, seen: Seen): RunPlan<R, Action> {
    const decided = this.#kind.plan(seen)
    const { caches, now } = this.#options
    const database = caches.databases.get({ namespace: run.metadata.namespace, name: run.spec.databaseName })
    return { ...decided, status: untroubled(withReplacedDatabase(decided.status, run, database, now())) }
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
    return this.#wake(seen, decided)
  }

  /** Reports that there is no database of that name yet, or fills in its id. */
  async #awaitDatabase(run: R): Promise<undefined> {
    const found = await fillInDatabaseId(this.#cluster, run)
    if (found === 'filled') return
    const status: { phase: 'pending'; startedAt?: string | undefined } = { ...run.status, phase: 'pending' }
    const findings = { Ready: found, Progressing: found }
    // The same fields as before.
    await this.#report(run, withFindings(run, status, findings, this.#options.now()) as StatusOf<R>)
  }

  #wake(seen: Seen, { wakeAt }: RunPlan<R, Action>): ReconcileResult {
    const wakeMs = wakeAt === undefined ? undefined : Math.max(0, wakeAt - this.#options.now())
    const known = [this.#kind.probeMs(seen), wakeMs].filter(ms => ms !== undefined)
    return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) }
  }

  async #report(run: R, status: StatusOf<R>) {
    if (canonicalJson(status) === canonicalJson(run.status ?? {})) return
    await this.#kind.writeStatus(run, status)
    this.#kind.reported(run, status)
  }

  /** The error that counts is the one that made the pass fail. */
  async #reportTrouble(run: R, error: unknown) {
    const { events, logger, now } = this.#options
    const before = (run.status ?? {}) as StatusOf<R> // of which every field is optional
    const status = troubled({ metadata: run.metadata, status: before }, error, this.#kind.words(run), now())
    if (status === undefined || canonicalJson(status) === canonicalJson(before)) return
    try {
      await this.#kind.writeStatus(run, status)
      const found = newTrouble(before, status)
      if (found !== undefined) events.record(run, 'Warning', found.reason, found.message)
    } catch (failure) {
      logger.warn({ key: keyOf(run), err: failure }, `what delays a ${this.#kind.name} could not be written`)
    }
  }
}

const asksNothing = <R extends Run, Action>(run: R, { actions, status }: RunPlan<R, Action>): boolean =>
  actions.length === 0 && canonicalJson(status) === canonicalJson(run.status ?? {})
