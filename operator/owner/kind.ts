/**
 * What the owner controller needs to know about a kind whose objects each own a Postgres: ManagedDatabase or Branch. The
 * controller does the same for both: it observes, plans, performs and writes the status. A kind declares what is its own.
 */

import type { Cluster, Kinds } from '../../cluster/index.ts'
import type { Informer } from '../../cluster/informer/index.ts'
import type { Backup, Condition, Task } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Finding } from '../objects/conditions.ts'
import type { Executor as InstanceExecutor, Pass as InstancePass } from '../workload/act.ts'
import type { Action as InstanceAction } from '../workload/actions.ts'
import type { Observation, OwnerObserver, PriorFacts } from '../workload/observe.ts'
import type { Observed } from '../workload/observed.ts'
import type { InstanceFindings } from '../workload/plan/findings.ts'

/** How a change in the cluster reaches the queue. */
export type Hear = {
  enqueue: (key: string) => void
  /** Enqueues at low priority. */
  later: (key: string) => void
}

export type OwnerName = 'ManagedDatabase' | 'Branch'

export type OwnerStatus<K extends OwnerName> = NonNullable<Kinds[K]['status']>

/** What the controller itself does for every kind. */
export type OwnerAction =
  | InstanceAction
  /** Adds the finalizer and the id label to the object; without an id, a new one. */
  | { do: 'identify'; id: string | undefined }
  /** Deletes what the cluster itself still lists, and removes the finalizer once nothing is left. */
  | { do: 'finish-deletion' }

export type Plan<Action, Status> = {
  actions: Action[]
  status: Status
  /** Postgres is probed soon instead of at the next regular probe. */
  awaitsPostgres: boolean
  /** The plan waits for the gateways' acknowledgement. */
  awaitsGateways: boolean
  /** The digest of the files that Postgres should run with. */
  configurationDigest: string | undefined
  /** When the next pass is due even if nothing changes, in ms since the epoch. */
  wakeAt: number | undefined
}

/**
 * What an action of an owner came to. `refused`: the cluster refuses to grow the volume. `replaced`: the object itself was written or
 * deleted, so the pass ends, and the next one sees it. `status`: takes the place of the planned one.
 */
export type Result<Status> = 'done' | 'refused' | 'replaced' | { status: Status }

export type Executor = InstanceExecutor & { newId: IdSource }

export type Pass<O extends Observed> = InstancePass & Observation<O>

/** `Action`: what the plan of the kind can name besides the actions of every owner. */
export type Kind<K extends OwnerName, O extends Observed, Action extends { do: string }> = {
  kind: K
  /** The controller's name in logs and metrics. */
  name: string
  objects: Informer<K>
  /** What Tasks of this kind's operations call their subject. */
  taskSubject: Task['spec']['subject']['kind']
  /** The conditions of the kind after these findings. */
  nextConditions: (
    before: readonly Condition[],
    findings: InstanceFindings,
    observedGeneration: number | undefined,
    now: number,
  ) => Condition[]
  /** Prepares the object before its first pass. Returns what it waits for. `replaced`: the next pass sees the object as it is now. */
  prepare: (cluster: Cluster, object: Kinds[K]) => Promise<'ready' | 'replaced' | Finding>
  observe: (
    observer: OwnerObserver,
    object: Kinds[K],
    keys: InstallationKeys,
    prior: PriorFacts,
  ) => Promise<Observation<O>>
  plan: (observed: O, now: number) => Plan<OwnerAction | Action, OwnerStatus<K>>
  perform: (executor: Executor, pass: Pass<O>, action: Action) => Promise<Result<OwnerStatus<K>>>
  isOwnAction: (action: OwnerAction | Action) => action is Action
  /** The backups that are deleted with the object, as the cluster itself lists them. */
  remainingBackups: (cluster: Cluster, observed: O) => Promise<Backup[]>
  /** Returns the phase of an object whose namespace is not served any more. */
  phaseNotServed: (before: OwnerStatus<K>) => OwnerStatus<K>['phase']
  /** Adds to the planned status what no plan decides. */
  complete: (object: Kinds[K], status: OwnerStatus<K>, now: number) => OwnerStatus<K>
  /** Records what a written status changes, as Events and metrics. */
  report: (before: Kinds[K], after: Kinds[K], now: number) => void
  /** Follows what concerns this kind alone. Returns functions that end it. */
  follow: (hear: Hear) => (() => void)[]
  stop: () => void
}
