/** Describes a kind whose objects run once and end: how the controller observes, plans and performs a run. */
import type { Cluster, ObjectKey } from '../../cluster/index.ts'
import type { ControllerOptions } from '../../controller/index.ts'
import type { Backup, Restore } from '../../crds/index.ts'
import type { ProblemTexts } from './problem.ts'

export type Run = Backup | Restore
export type StatusOf<R extends Run> = NonNullable<R['status']>

/** `requeueAt`: the time of the next pass without an event, in ms since the epoch. */
export type RunPlan<R extends Run, Action> = {
  actions: readonly Action[]
  status: StatusOf<R>
  requeueAt?: number | undefined
}

/** `replaced`: the object was replaced, and the next pass reads it. With a status, the pass ends with this status. */
export type Done<R extends Run> = 'done' | 'replaced' | { status: StatusOf<R> }

/** The tools that a kind gets from its controller. `cluster`: for every write. */
export type RunTools = { cluster: Cluster; enqueue: (key: string) => void }

export type RunKind<R extends Run, Action, Seen> = {
  /** The controller's name. */
  readonly name: string
  readonly limits?: ControllerOptions['limits']
  /** The cache of the kind. */
  readonly runs: {
    get(key: ObjectKey): R | undefined
    byIndex(index: 'databaseName', value: string): R[]
  }
  /** The keys that the resync enqueues. */
  keys(): Iterable<string>
  /** Whether the run has not ended yet. */
  isOpen(run: R): boolean
  /** The run for a pass. Undefined if there is none with that key. */
  find(key: string): Promise<R | undefined>
  /** Called if there is no run with a key. */
  missing(key: string): Promise<void>
  /** The complete run, for writing, if the cache has only a part of it. Undefined if another run has replaced it. */
  complete(run: R): Promise<R | undefined>
  /** Returns undefined if no pass can begin yet. */
  observe(run: R, key: string, signal: AbortSignal): Promise<Seen | undefined>
  plan(seen: Seen): RunPlan<R, Action>
  perform(seen: Seen, action: Action, plan: RunPlan<R, Action>): Promise<Done<R>>
  /** How soon to observe the run again, in ms. */
  probeMs(seen: Seen): number | undefined
  texts(run: R): ProblemTexts
  writeStatus(run: R, status: StatusOf<R>): Promise<unknown>
  /** Called after the status has changed, unless the change only reports a problem. */
  reported(run: R, status: StatusOf<R>): void
  /** Enqueues the runs that a change may concern. Returns functions that unsubscribe. */
  follow(): (() => void)[]
  stop(): Promise<void>
}
