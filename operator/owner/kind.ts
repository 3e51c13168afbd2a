/**
 * Describes a kind whose objects each own a Postgres: ManagedDatabase or Branch. The controller is the same for both
 * kinds: it observes, plans, performs and writes the status. A kind declares only its differences.
 */

import type { AnyObject, Cluster, Kinds } from '../../cluster/index.ts'
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

/** Enqueues owners after a change in the cluster. */
export type Enqueues = {
  enqueue: (key: string) => void
  /** Enqueues at low priority. */
  later: (key: string) => void
}

export type OwnerName = 'ManagedDatabase' | 'Branch'

export type OwnerStatus<K extends OwnerName> = NonNullable<Kinds[K]['status']>

/** The actions that are the same for every kind. */
export type OwnerAction =
  | InstanceAction
  /** Adds the finalizer and the id label to the object. Creates a new id if `id` is undefined. */
  | { do: 'identify'; id: string | undefined }
  /** Deletes remaining objects that the cluster still lists. Removes the finalizer when none is left. */
  | { do: 'finish-deletion' }

export type Plan<Action, Status> = {
  actions: Action[]
  status: Status
  /** Probes Postgres soon instead of at the next regular probe. */
  awaitsPostgres: boolean
  /** The plan waits until gateways have acknowledged the route. */
  awaitsGateways: boolean
  /** The digest of the files that Postgres should run with. */
  configurationDigest: string | undefined
  /** The time of the next pass without an event, in ms since the epoch. */
  requeueAt: number | undefined
}

/**
 * The result of an owner's action. `refused`: the cluster refuses to grow the volume. `replaced`: the owner's object
 * was written or deleted; this pass ends, and the next one reads the object. `status`: replaces the planned status.
 */
export type Result<Status> = 'done' | 'refused' | 'replaced' | { status: Status }

export type Executor = InstanceExecutor & { newId: IdSource }

export type Pass<O extends Observed> = InstancePass & Observation<O>

/** `Action`: the actions that only this kind's plan has. */
export type Kind<K extends OwnerName, O extends Observed, Action extends { do: string }> = {
  kind: K
  /** The controller's name in logs and metrics. */
  name: string
  objects: Informer<K>
  /** The name of the kind in the subjects of Tasks. */
  taskSubject: Task['spec']['subject']['kind']
  /** Returns the conditions of the kind after these findings. */
  nextConditions: (
    before: readonly Condition[],
    findings: InstanceFindings,
    observedGeneration: number | undefined,
    now: number,
  ) => Condition[]
  /**
   * Prepares the object before its first pass. Returns what the object waits for. `replaced`: the next pass reads the
   * changed object.
   */
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
  /** The backups that are deleted with the object, listed from the cluster. */
  remainingBackups: (cluster: Cluster, observed: O) => Promise<Backup[]>
  /** Whether a child is kept when the object is deleted. Absent if no child is kept. */
  outlives?: (observed: O, object: AnyObject) => boolean
  /** Returns the phase of an object whose namespace the operator no longer manages. */
  phaseNotServed: (before: OwnerStatus<K>) => OwnerStatus<K>['phase']
  /** Adds fields to the planned status that no plan decides. */
  complete: (object: Kinds[K], status: OwnerStatus<K>, now: number) => OwnerStatus<K>
  /** Reports the changes of a written status, as Events and metrics. */
  report: (before: Kinds[K], after: Kinds[K], now: number) => void
  /** Subscribes to changes that concern only this kind. Returns functions that unsubscribe. */
  follow: (enqueues: Enqueues) => (() => void)[]
  stop: () => void
}
