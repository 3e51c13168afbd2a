/**
 * What a cluster does by itself after a deletion, in the background: dependents whose owners are all gone are deleted,
 * references to owners that are gone are dropped, orphaned dependents are let go, a terminating namespace is emptied
 * and then removed. It works on committed state alone and looks at everything once when the store opens, so it goes
 * on where a crash interrupted it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isClusterError } from '../../cluster/errors.ts'
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import type { OwnerReference } from '../../crds/metadata.ts'
import type { Change } from './history.ts'
import type { JsonObject } from './json.ts'
import { metadataOf, type ObjectReference, placeOf, referenceOf } from './objects.ts'
import type { State } from './state.ts'

export const orphanFinalizer = 'orphan'

/** The writes that collection comes to; each is guarded by the uid it was decided on, and harmless when it is late. */
export type CollectorActions = {
  delete(reference: ObjectReference, uid: string | undefined): Promise<void>
  dropOwners(reference: ObjectReference, uid: string | undefined, owners: ReadonlySet<string>): Promise<void>
  dropFinalizer(reference: ObjectReference, uid: string | undefined, finalizer: string): Promise<void>
  /** Removes a terminating namespace that is empty and has no finalizers; otherwise does nothing. */
  removeNamespace(reference: ObjectReference): Promise<void>
}

export type Collector = {
  /** Looks at what may have to be done after these changes. */
  notice(changes: readonly Change[]): void
  close(): Promise<void>
}

const retryMs = 1000

export function createCollector(state: State, actions: CollectorActions, logger: Logger): Collector {
  const queue = new Map<string, ObjectReference>()
  const stopped = new AbortController()
  let working: Promise<void> | undefined

  function enqueue(reference: ObjectReference): void {
    queue.set(placeOf(reference), reference)
    working ??= work()
  }

  async function work(): Promise<void> {
    // Out of the call that committed the change.
    await Promise.resolve()
    for (let next = take(); next !== undefined && !stopped.signal.aborted; next = take()) {
      try {
        await collect(next)
      } catch (error) {
        // Another write came first: its own change brings the object here again.
        if (isClusterError(error, 'Conflict', 'NotFound')) continue
        if (stopped.signal.aborted) break
        logger.warn({ err: error, object: placeOf(next) }, 'garbage collection failed; will try again')
        queue.set(placeOf(next), next)
        await delay(retryMs, undefined, { signal: stopped.signal, ref: false }).catch(() => undefined)
      }
    }
    working = undefined
  }

  function take(): ObjectReference | undefined {
    for (const [place, reference] of queue) {
      queue.delete(place)
      return reference
    }
    return undefined
  }

  async function collect(reference: ObjectReference): Promise<void> {
    const object = state.get(reference)
    if (object === undefined) return
    const { deletionTimestamp, finalizers = [] } = metadataOf(object)
    if (deletionTimestamp !== undefined && finalizers.includes(orphanFinalizer)) await orphan(reference, object)
    if (reference.kind === 'Namespace' && deletionTimestamp !== undefined) await empty(reference)
    await collectDependent(reference, object)
  }

  /** Deletes an object none of whose owners is there; drops the references to those that are not. */
  async function collectDependent(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid, ownerReferences: owners = [], deletionTimestamp } = metadataOf(object)
    const absent = owners.filter(owner => !isThere(reference, owner))
    if (absent.length === 0) return
    if (absent.length < owners.length) {
      await actions.dropOwners(reference, uid, new Set(absent.map(owner => owner.uid)))
    } else if (deletionTimestamp === undefined) await actions.delete(reference, uid)
  }

  /** An owner is in the dependent's namespace or has none. One of a kind unknown here is left alone. */
  function isThere(dependent: ObjectReference, owner: OwnerReference): boolean {
    if (!isKind(owner.kind) || kindInfo[owner.kind].apiVersion !== owner.apiVersion) return true
    const namespace = kindInfo[owner.kind].namespaced ? dependent.namespace : ''
    const object = state.get({ kind: owner.kind, namespace, name: owner.name })
    return object !== undefined && metadataOf(object).uid === owner.uid
  }

  async function orphan(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid } = metadataOf(object)
    for (const dependent of uid === undefined ? [] : state.dependents(uid)) {
      const present = state.get(dependent)
      if (present !== undefined) await actions.dropOwners(dependent, metadataOf(present).uid, new Set([uid ?? '']))
    }
    await actions.dropFinalizer(reference, uid, orphanFinalizer)
  }

  async function empty(reference: ObjectReference): Promise<void> {
    // All at once, so that they share their trips to the disk.
    await Promise.all(state.inNamespace(reference.name).map(deleteContent))
    await actions.removeNamespace(reference)
  }

  async function deleteContent(content: ObjectReference): Promise<void> {
    const object = state.get(content)
    if (object === undefined || metadataOf(object).deletionTimestamp !== undefined) return
    await actions.delete(content, metadataOf(object).uid)
  }

  const namespaceOf = (reference: ObjectReference): ObjectReference => ({
    kind: 'Namespace',
    namespace: '',
    name: reference.namespace,
  })

  function notice(changes: readonly Change[]): void {
    for (const { reference, object, deleted } of changes) {
      const { uid, ownerReferences, deletionTimestamp } = metadataOf(object)
      if (!deleted && (ownerReferences !== undefined || deletionTimestamp !== undefined)) enqueue(reference)
      if (!deleted) continue
      for (const dependent of uid === undefined ? [] : state.dependents(uid)) enqueue(dependent)
      const namespace = state.get(namespaceOf(reference))
      if (namespace !== undefined && metadataOf(namespace).deletionTimestamp !== undefined) {
        enqueue(referenceOf('Namespace', namespace))
      }
    }
  }

  for (const [reference, object] of state.all()) {
    const { ownerReferences, deletionTimestamp } = metadataOf(object)
    if (ownerReferences !== undefined || deletionTimestamp !== undefined) enqueue(reference)
  }
  return {
    notice,
    async close() {
      stopped.abort()
      await working
    },
  }
}

const isKind = (kind: string): kind is KindName => Object.hasOwn(kindInfo, kind)
