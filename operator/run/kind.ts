/** What a kind whose objects run once and end hands to its controller: what it observes, plans and does. */
import type { Cluster, ObjectKey } from '../../cluster/index.ts'
import type { ControllerOptions } from '../../controller/index.ts'
import type { Backup, Restore } from '../../crds/index.ts'
import type { TroubleWords } from './trouble.ts'

export type Run = Backup | Restore
export type StatusOf<R extends Run> = NonNullable<R['status']>

/** `wakeAt`: when to look again even if nothing happens, in ms since the epoch. */
export type RunPlan<R extends Run, Action> = {
  actions: readonly Action[]
  status: StatusOf<R>
  wakeAt?: number | undefined
}

/** `replaced`: the object is another one now, and the next pass sees it. With a status: the pass ends with it. */
export type Done<R extends Run> = 'done' | 'replaced' | { status: StatusOf<R> }

/** What a kind gets from its controller. `cluster`: every write goes through it. */
export type RunTools = { cluster: Cluster; enqueue: (key: string) => void }

export type RunKind<R extends Run, Action, Seen> = {
  /** Of the controller. */
  readonly name: string
  readonly limits?: ControllerOptions['limits']
  /** The cache of the kind. */
  readonly runs: {
    get(key: ObjectKey): R | undefined
    byIndex(index: 'databaseName', value: string): R[]
  }
  /** The keys that the resync looks at. */
  keys(): Iterable<string>
  /** Something is still to come of it. */
  isOpen(run: R): boolean
  /** The run that a pass begins with; undefined where there is none of that key. */
  find(key: string): Promise<R | undefined>
  /** Called where there is no run of a key. */
  missing(key: string): Promise<void>
  /** The run as it can be written, where the cache does not keep all of it; undefined where it is another one by now. */
  whole(run: R): Promise<R | undefined>
  /** Undefined where no pass can begin yet. */
  observe(run: R, key: string, signal: AbortSignal): Promise<Seen | undefined>
  plan(seen: Seen): RunPlan<R, Action>
  perform(seen: Seen, action: Action, plan: RunPlan<R, Action>): Promise<Done<R>>
  /** How soon to look again at what was observed, in ms. */
  probeMs(seen: Seen): number | undefined
  words(run: R): TroubleWords
  writeStatus(run: R, status: StatusOf<R>): Promise<unknown>
  /** Called after the status has changed, but for trouble. */
  reported(run: R, status: StatusOf<R>): void
  /** Enqueues the runs that a change may concern. Returns what ends it. */
  follow(): (() => void)[]
  stop(): Promise<void>
}
