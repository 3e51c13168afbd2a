/**
 * The store's untyped operations: reads, clients' writes (computed by `writes.ts`), and the store's own writes.
 */
import { ClusterError } from '../../cluster/errors.ts'
import type { Namespace } from '../../cluster/index.ts'
import { type AnyObject, type KindName, type Kinds, kindNames } from '../../cluster/kinds.ts'
import type { DeleteOptions, ListOptions, ObjectKey, Propagation, WatchOptions } from '../../cluster/port.ts'
import { requireSelectable } from '../../cluster/selection.ts'
import type { Admission, AdmissionRequest } from './admission.ts'
import type { Committer, Decision } from './commit.ts'
import { type CollectorActions, foregroundFinalizer, orphanFinalizer } from './garbage.ts'
import type { JsonObject } from './json.ts'
import { listPage, type Page } from './lists.ts'
import { requireSelector } from './metadata.ts'
import { metadataOf, type ObjectReference, withMetadata } from './objects.ts'
import { isInUse, protectionOf } from './protection.ts'
import type { Quotas } from './quotas.ts'
import { alreadyExists, conflict, modified, notAdmitted, notFound, otherUid, terminating } from './refusals.ts'
import type { Resource } from './resource.ts'
import type { State } from './state.ts'
import { type ChangeNotifier, type StoreEvent, watch } from './watch.ts'
import {
  applied,
  created,
  type Outcome,
  receive,
  replaced,
  type WriteContext,
  withDeletionTimestamp,
  withStatus,
} from './writes.ts'

export type Parts = {
  readonly state: State
  readonly committer: Committer
  readonly resources: ReadonlyMap<KindName, Resource>
  readonly changeNotifiers: ReadonlyMap<KindName, ChangeNotifier>
  readonly now: () => number
  readonly quotas: Quotas
  readonly admissions: readonly Admission[]
}

const collectorName = 'garbage-collector'

/** The reference for a key. Ignores the key's namespace if the kind is cluster-scoped. */
export function locate(resource: Resource, { namespace, name }: ObjectKey): ObjectReference {
  return { kind: resource.kind, namespace: resource.info.namespaced ? (namespace ?? '') : '', name }
}

/** @throws ClusterError `NotFound` for a kind without a definition */
export function resourceOf({ resources }: Parts, kind: KindName): Resource {
  const resource = resources.get(kind)
  if (resource === undefined) throw new ClusterError('NotFound', `the store does not serve ${kind}`)
  return resource
}

const contextOf = (parts: Parts, resource: Resource, manager: string): WriteContext => ({
  resource,
  manager,
  now: parts.now(),
})

export function list(parts: Parts, kind: KindName, options: ListOptions): Page {
  const { state, committer } = parts
  const resource = resourceOf(parts, kind)
  requireSelector(options.labels)
  requireSelectable(kind, options)
  const namespace = resource.info.namespaced ? options.namespace : undefined
  return listPage(state, committer.history(kind), committer.version, kind, { ...options, namespace })
}

export function watchKind(parts: Parts, kind: KindName, options: WatchOptions): AsyncIterable<StoreEvent> {
  const { committer, changeNotifiers } = parts
  const resource = resourceOf(parts, kind)
  requireSelector(options.labels)
  requireSelectable(kind, options)
  const changeNotifier = changeNotifiers.get(kind)
  if (changeNotifier === undefined) throw new ClusterError('NotFound', `the store does not serve ${kind}`)
  const source = {
    history: committer.history(kind),
    changeNotifier,
    version: () => committer.version,
    namespace: resource.info.namespaced ? options.namespace : undefined,
    labels: options.labels,
    open: options.open,
  }
  return watch(source, options.resourceVersion, options.signal)
}

/** The reference of an object's namespace; undefined for a cluster-scoped kind. */
function namespaceReferenceOf(resource: Resource, reference: ObjectReference): ObjectReference | undefined {
  return resource.info.namespaced ? { kind: 'Namespace', namespace: '', name: reference.namespace } : undefined
}

function requireNamespace(parts: Parts, resource: Resource, reference: ObjectReference): void {
  const namespaceReference = namespaceReferenceOf(resource, reference)
  if (namespaceReference === undefined || reference.namespace === '') return
  const namespace = parts.state.get(namespaceReference)
  if (namespace === undefined) throw notFound(resourceOf(parts, 'Namespace'), namespaceReference.name)
  if (metadataOf(namespace).deletionTimestamp === undefined) return
  throw terminating(resource, reference.name, namespaceReference.name)
}

const present = (object: JsonObject | undefined): JsonObject => {
  if (object === undefined) throw new ClusterError('Unavailable', 'the write stored no object')
  return object
}

/** Returns the outcome of a write. @throws ClusterError `Forbidden` if this cluster does not admit the write */
function admitted(
  parts: Parts,
  resource: Resource,
  manager: string,
  previous: JsonObject | undefined,
  outcome: Outcome,
): Outcome {
  if (outcome.object !== previous)
    admit(parts, resource, manager, previous ? 'update' : 'create', outcome.object, previous)
  return outcome
}

function namespaceOf({ state }: Parts, object: JsonObject): Namespace | undefined {
  const name = metadataOf(object).namespace
  if (name === undefined) return undefined
  const namespace = state.get({ kind: 'Namespace', namespace: '', name })
  return namespace as unknown as Namespace | undefined
}

/** @throws ClusterError `Forbidden` */
function admit(
  parts: Parts,
  resource: Resource,
  manager: string,
  operation: AdmissionRequest['operation'],
  object: JsonObject,
  previous: JsonObject | undefined,
  propagation?: Propagation,
): void {
  // An object that passed its kind's rules is an object of that kind.
  const typed = (json: JsonObject): AnyObject => json as unknown as AnyObject
  const namespace = namespaceOf(parts, object)
  const neighbours = <K extends KindName>(of: K) =>
    parts.state.list(of, metadataOf(object).namespace) as unknown as readonly Kinds[K][]
  for (const admission of parts.admissions) {
    const request = { operation, object: typed(object), previous: previous && typed(previous), manager }
    const why = admission({ ...request, namespace, propagation, neighbours })
    if (why !== undefined) throw notAdmitted(resource, metadataOf(object).name, why)
  }
}

export async function create(parts: Parts, manager: string, kind: KindName, input: unknown): Promise<JsonObject> {
  const resource = resourceOf(parts, kind)
  const draft = receive(resource, input)
  const reference = locate(resource, metadataOf(draft))
  let release = () => {}
  const decide = (current: JsonObject | undefined): Decision => {
    requireNamespace(parts, resource, reference)
    // As on an API server, the quota is checked before the name.
    parts.quotas.require(resource, reference, draft)
    if (current !== undefined) throw alreadyExists(resource, reference.name)
    const object = created(contextOf(parts, resource, manager), draft)
    admitted(parts, resource, manager, undefined, { object, isDeleted: false })
    release = parts.quotas.take(resource, reference, undefined, object)
    return { object, isDeleted: false }
  }
  return present(
    await parts.committer.write(reference, decide, namespaceReferenceOf(resource, reference)).finally(() => release()),
  )
}

export async function apply(parts: Parts, manager: string, kind: KindName, input: unknown): Promise<JsonObject> {
  const resource = resourceOf(parts, kind)
  const draft = receive(resource, input)
  const reference = locate(resource, metadataOf(draft))
  let release = () => {}
  const decide = (current: JsonObject | undefined): Decision => {
    if (current === undefined) {
      requireNamespace(parts, resource, reference)
      parts.quotas.require(resource, reference, draft)
    }
    const context = contextOf(parts, resource, manager)
    const outcome = admitted(parts, resource, manager, current, applied(context, current, draft))
    if (outcome.object !== current) release = parts.quotas.take(resource, reference, current, outcome.object)
    return outcome
  }
  return present(
    await parts.committer.write(reference, decide, namespaceReferenceOf(resource, reference)).finally(() => release()),
  )
}

export async function replace(
  parts: Parts,
  manager: string,
  kind: KindName,
  input: unknown,
  part: 'main' | 'status',
): Promise<JsonObject> {
  const resource = resourceOf(parts, kind)
  const object = receive(resource, input)
  const reference = locate(resource, metadataOf(object))
  const write = part === 'main' ? replaced : withStatus
  let release = () => {}
  const decide = (current: JsonObject | undefined): Decision => {
    if (current === undefined) throw notFound(resource, reference.name)
    const outcome = write(contextOf(parts, resource, manager), current, object)
    if (part === 'status' || outcome.object === current) return outcome
    admitted(parts, resource, manager, current, outcome)
    release = parts.quotas.take(resource, reference, current, outcome.object)
    return outcome
  }
  return present(await parts.committer.write(reference, decide).finally(() => release()))
}

export async function remove(
  parts: Parts,
  manager: string,
  kind: KindName,
  key: ObjectKey,
  options: DeleteOptions,
): Promise<void> {
  const resource = resourceOf(parts, kind)
  await parts.committer.write(locate(resource, key), current => {
    const decision = deleted(parts, resource, current, options)
    if (decision !== undefined && current !== undefined)
      admit(parts, resource, manager, 'delete', current, current, options.propagation)
    return decision
  })
}

function deleted(
  parts: Parts,
  resource: Resource,
  current: JsonObject | undefined,
  { uid, resourceVersion, propagation = 'Background' }: DeleteOptions,
): Decision {
  if (current === undefined) return undefined
  const { name, finalizers = [], ...stored } = metadataOf(current)
  if (uid !== undefined && uid !== stored.uid) throw conflict(resource, name, otherUid(uid, stored.uid))
  if (resourceVersion !== undefined && resourceVersion !== stored.resourceVersion) {
    throw conflict(resource, name, modified)
  }
  const startsDeletion = stored.deletionTimestamp === undefined
  // The first deletion of a pod or namespace sets the options. For other objects, a later deletion may change them.
  if (!startsDeletion && (resource.kind === 'Namespace' || resource.kind === 'Pod')) return undefined
  const remaining = withPropagation(finalizers, propagation)
  // The collector removes a namespace once it is empty.
  if (remaining.length === 0 && resource.kind !== 'Namespace') return { object: current, isDeleted: true }
  const same = remaining.length === finalizers.length && remaining.every(each => finalizers.includes(each))
  const object = same ? current : withMetadata(current, { finalizers: remaining })
  return { object: startsDeletion ? withDeletionTimestamp(resource, object, parts.now()) : object, isDeleted: false }
}

/** Returns the finalizers, with the finalizer that requests this propagation policy. */
function withPropagation(finalizers: readonly string[], propagation: Propagation): string[] {
  const others = finalizers.filter(each => each !== orphanFinalizer && each !== foregroundFinalizer)
  if (propagation === 'Orphan') return [...others, orphanFinalizer]
  return propagation === 'Foreground' ? [...others, foregroundFinalizer] : others
}

/** The writes of the garbage collector. */
export function collectorActions(parts: Parts): CollectorActions {
  /** Replaces the metadata of the object with this uid. Does nothing if another object now has the name. */
  async function change(
    reference: ObjectReference,
    uid: string | undefined,
    alter: (object: JsonObject) => JsonObject,
  ): Promise<void> {
    const resource = resourceOf(parts, reference.kind)
    await parts.committer.write(reference, current => {
      if (current === undefined || metadataOf(current).uid !== uid) return undefined
      return replaced(contextOf(parts, resource, collectorName), current, alter(current))
    })
  }

  return {
    delete: (reference, options) => remove(parts, collectorName, reference.kind, reference, options),
    dropOwners: (reference, uid, owners) =>
      change(reference, uid, object => {
        const remaining = metadataOf(object).ownerReferences?.filter(owner => !owners.has(owner.uid)) ?? []
        return withMetadata(object, { ownerReferences: remaining.length > 0 ? remaining : undefined })
      }),
    unblockOwners: (reference, uid) =>
      change(reference, uid, object => {
        const owners = metadataOf(object).ownerReferences?.map(owner => ({ ...owner, blockOwnerDeletion: false }))
        return withMetadata(object, { ownerReferences: owners })
      }),
    dropFinalizer: (reference, uid, finalizer) =>
      change(reference, uid, object => {
        const remaining = metadataOf(object).finalizers?.filter(each => each !== finalizer) ?? []
        return withMetadata(object, { finalizers: remaining.length > 0 ? remaining : undefined })
      }),
    unprotect: async reference => {
      const resource = resourceOf(parts, reference.kind)
      const finalizer = protectionOf(reference.kind)
      await parts.committer.write(reference, current => {
        if (current === undefined || finalizer === undefined || isInUse(parts.state, reference, current))
          return undefined
        const { deletionTimestamp, finalizers = [] } = metadataOf(current)
        if (deletionTimestamp === undefined || !finalizers.includes(finalizer)) return undefined
        const remaining = finalizers.filter(each => each !== finalizer)
        const next = withMetadata(current, { finalizers: remaining.length > 0 ? remaining : undefined })
        return replaced(contextOf(parts, resource, collectorName), current, next)
      })
    },
    removeNamespace: async reference => {
      await parts.committer.write(reference, current => {
        const { deletionTimestamp, finalizers = [] } =
          current === undefined ? { finalizers: [''] } : metadataOf(current)
        const empty = parts.state.inNamespace(reference.name).length === 0
        if (current === undefined || deletionTimestamp === undefined || finalizers.length > 0 || !empty)
          return undefined
        return { object: current, isDeleted: true }
      })
    },
  }
}

/** Deletes Events that were not repeated for an hour, as the API server does. */
export async function expireEvents(parts: Parts): Promise<void> {
  const oldest = parts.now() - 60 * 60 * 1000
  const stale = parts.state.list('Event').filter(event => lastSeen(event) < oldest)
  await Promise.all(
    stale.map(event => {
      const { namespace, name, uid } = metadataOf(event)
      return remove(parts, collectorName, 'Event', { namespace, name }, { uid })
    }),
  )
}

function lastSeen(event: JsonObject): number {
  const times = [event.lastTimestamp, event.eventTime, metadataOf(event).creationTimestamp]
  return Math.max(
    ...times.map(time => (typeof time === 'string' ? Date.parse(time) : Number.NaN)).filter(Number.isFinite),
  )
}

/** Creates a change notifier for every kind. */
export const changeNotifiersFor = (make: () => ChangeNotifier): Map<KindName, ChangeNotifier> =>
  new Map(kindNames.map(kind => [kind, make()]))
