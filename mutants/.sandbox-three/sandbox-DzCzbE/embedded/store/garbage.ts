/**
 * What a cluster does by itself after a deletion, in the background: dependents whose owners are all gone, or wait for
 * their dependents to go, are deleted; references to such owners are dropped where another owner is left; orphaned
 * dependents are let go; a claim or volume that is being deleted is let go once nothing uses it; a terminating namespace is
 * emptied and then removed. It works on committed state alone and looks at everything once when the store opens, so it goes
 * on where a crash interrupted it.
 */
// @ts-nocheck

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isClusterError } from '../../cluster/errors.ts'
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import type { DeleteOptions, Propagation } from '../../cluster/port.ts'
import type { OwnerReference } from '../../crds/metadata.ts'
import type { Change } from './history.ts'
import type { JsonObject } from './json.ts'
import { metadataOf, type ObjectReference, placeOf, referenceOf } from './objects.ts'
import { claimsOf, protectionOf } from './protection.ts'
import type { State } from './state.ts'

export const orphanFinalizer = 'orphan'
/** On an object that is being deleted: it waits for those of its dependents that block its deletion. */
export const foregroundFinalizer = 'foregroundDeletion'

/** The writes that collection comes to; each is guarded by the uid it was decided on, and harmless when it is late. */
export type CollectorActions = {
  delete(reference: ObjectReference, options: DeleteOptions): Promise<void>
  dropOwners(reference: ObjectReference, uid: string | undefined, owners: ReadonlySet<string>): Promise<void>
  /** Lets the owners of an object go before it does. */
  unblockOwners(reference: ObjectReference, uid: string | undefined): Promise<void>
  dropFinalizer(reference: ObjectReference, uid: string | undefined, finalizer: string): Promise<void>
  /** Lets a claim or volume that is being deleted go where nothing uses it; otherwise does nothing. */
  unprotect(reference: ObjectReference): Promise<void>
  /** Removes a terminating namespace that is empty and has no finalizers; otherwise does nothing. */
  removeNamespace(reference: ObjectReference): Promise<void>
}

type Collector = {
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
    if (deletionTimestamp === undefined) return collectDependent(reference, object)
    if (protectionOf(reference.kind) !== undefined) await actions.unprotect(reference)
    if (finalizers.includes(orphanFinalizer)) await orphan(reference, object)
    if (finalizers.includes(foregroundFinalizer)) await waitForDependents(reference, object)
    if (reference.kind === 'Namespace') await empty(reference)
  }

  /** Deletes an object that no owner keeps; drops the references to those that do not. */
  async function collectDependent(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid, resourceVersion, ownerReferences: owners = [], finalizers = [] } = metadataOf(object)
    const waiting = owners.filter(owner => isWaiting(reference, owner))
    const leaving = [...owners.filter(owner => !isThere(reference, owner)), ...waiting]
    if (leaving.length === 0) return
    if (leaving.length < owners.length) {
      return actions.dropOwners(reference, uid, new Set(leaving.map(owner => owner.uid)))
    }
    const dependents = uid === undefined ? [] : state.dependents(uid)
    if (waiting.length === 0 || dependents.length === 0) {
      return actions.delete(reference, { uid, resourceVersion, propagation: asMarked(finalizers) })
    }
    // A circle of owners would wait for itself.
    if (dependents.some(isWaitingObject)) await actions.unblockOwners(reference, uid)
    await actions.delete(reference, { uid, propagation: 'Foreground' })
  }

  /** What an object's own finalizers say of its dependents. */
  function asMarked(finalizers: readonly string[]): Propagation {
    if (finalizers.includes(orphanFinalizer)) return 'Orphan'
    return finalizers.includes(foregroundFinalizer) ? 'Foreground' : 'Background'
  }

  /** Lets an object that is deleted in the foreground go once no dependent blocks it. */
  async function waitForDependents(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid } = metadataOf(object)
    const blocks = (dependent: ObjectReference): boolean => {
      const present = state.get(dependent)
      const owners = present === undefined ? [] : (metadataOf(present).ownerReferences ?? [])
      return owners.some(owner => owner.uid === uid && owner.blockOwnerDeletion === true)
    }
    if (uid !== undefined && state.dependents(uid).some(blocks)) return // looked at again when one of them changes
    await actions.dropFinalizer(reference, uid, foregroundFinalizer)
  }

  /** The owner that a dependent names: in its namespace, or without one. */
  function ownerOf(dependent: ObjectReference, owner: OwnerReference): ObjectReference | undefined {
    if (!isKind(owner.kind) || kindInfo[owner.kind].apiVersion !== owner.apiVersion) return undefined
    const { namespaced } = kindInfo[owner.kind]
    if (namespaced && dependent.namespace === '') return undefined
    return { kind: owner.kind, namespace: namespaced ? dependent.namespace : '', name: owner.name }
  }

  /** A dependent of what cannot be looked for is left alone. */
  function isThere(dependent: ObjectReference, owner: OwnerReference): boolean {
    const reference = ownerOf(dependent, owner)
    if (reference === undefined) return true
    const object = state.get(reference)
    return object !== undefined && metadataOf(object).uid === owner.uid
  }

  function isWaiting(dependent: ObjectReference, owner: OwnerReference): boolean {
    const reference = ownerOf(dependent, owner)
    return reference !== undefined && isThere(dependent, owner) && isWaitingObject(reference)
  }

  function isWaitingObject(reference: ObjectReference): boolean {
    const object = state.get(reference)
    if (object === undefined) return false
    const { deletionTimestamp, finalizers = [] } = metadataOf(object)
    return deletionTimestamp !== undefined && finalizers.includes(foregroundFinalizer)
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
    await actions.delete(content, { uid: metadataOf(object).uid })
  }

  const namespaceOf = (reference: ObjectReference): ObjectReference => ({
    kind: 'Namespace',
    namespace: '',
    name: reference.namespace,
  })

  function notice(changes: readonly Change[]): void {
    for (const { reference, object, previous, deleted } of changes) {
      const { uid, ownerReferences, deletionTimestamp } = metadataOf(object)
      if (!deleted && (ownerReferences !== undefined || deletionTimestamp !== undefined)) enqueue(reference)
      if (previous !== undefined) noticeOwners(reference, previous)
      if (deleted || isWaitingObject(reference)) {
        for (const dependent of uid === undefined ? [] : state.dependents(uid)) enqueue(dependent)
      }
      // Whoever it used may go now.
      if (reference.kind === 'Pod' && deleted) for (const claim of claimsOf(reference, object)) enqueue(claim)
      if (!deleted) continue
      const namespace = state.get(namespaceOf(reference))
      if (namespace !== undefined && metadataOf(namespace).deletionTimestamp !== undefined) {
        enqueue(referenceOf('Namespace', namespace))
      }
    }
  }

  /** An owner that waits may have waited for this. */
  function noticeOwners(reference: ObjectReference, previous: JsonObject): void {
    for (const owner of metadataOf(previous).ownerReferences ?? []) {
      if (isWaiting(reference, owner)) enqueue(ownerOf(reference, owner) ?? reference)
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
