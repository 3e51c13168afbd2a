/**
 * Collects garbage in the background, as a cluster does after a deletion:
 *
 * - deletes a dependent if all its owners are deleted or being deleted in the foreground; if another owner exists,
 *   removes the references to deleted owners
 * - removes the owner references of orphaned dependents
 * - removes the protection finalizer of a claim or volume that is being deleted and unused
 * - empties and then removes a terminating namespace
 *
 * The collector reads only committed state. It checks all objects when the store opens, so it continues after a crash.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isClusterError } from '../../cluster/errors.ts'
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import type { DeleteOptions, Propagation } from '../../cluster/port.ts'
import type { OwnerReference } from '../../crds/metadata.ts'
import type { Change } from './history.ts'
import type { JsonObject } from './json.ts'
import { keyOf, metadataOf, type ObjectReference, referenceOf } from './objects.ts'
import { claimsOf, protectionOf } from './protection.ts'
import type { State } from './state.ts'

export const orphanFinalizer = 'orphan'
/** Delays an object's deletion until no dependent blocks it. */
export const foregroundFinalizer = 'foregroundDeletion'

/** The collector's writes. Each write checks the object's uid, so a late write cannot change another object. */
export type CollectorActions = {
  delete(reference: ObjectReference, options: DeleteOptions): Promise<void>
  dropOwners(reference: ObjectReference, uid: string | undefined, owners: ReadonlySet<string>): Promise<void>
  /** Stops an object from blocking the deletion of its owners. */
  unblockOwners(reference: ObjectReference, uid: string | undefined): Promise<void>
  dropFinalizer(reference: ObjectReference, uid: string | undefined, finalizer: string): Promise<void>
  /** Removes the protection of a claim or volume that is being deleted and unused; otherwise does nothing. */
  unprotect(reference: ObjectReference): Promise<void>
  /** Removes a terminating namespace that is empty and has no finalizers; otherwise does nothing. */
  removeNamespace(reference: ObjectReference): Promise<void>
}

type Collector = {
  /** Queues the objects that these changes may affect. */
  notice(changes: readonly Change[]): void
  close(): Promise<void>
}

const retryMs = 1000

export function createCollector(state: State, actions: CollectorActions, logger: Logger): Collector {
  return new GarbageCollector(state, actions, logger)
}

class GarbageCollector implements Collector {
  readonly #state: State
  readonly #actions: CollectorActions
  readonly #logger: Logger
  readonly #owners: Owners
  readonly #queue = new Map<string, ObjectReference>()
  readonly #stopped = new AbortController()
  #working: Promise<void> | undefined

  constructor(state: State, actions: CollectorActions, logger: Logger) {
    this.#state = state
    this.#actions = actions
    this.#logger = logger
    this.#owners = new Owners(state)
    for (const [reference, object] of state.all()) {
      const { ownerReferences, deletionTimestamp } = metadataOf(object)
      if (ownerReferences !== undefined || deletionTimestamp !== undefined) this.#enqueue(reference)
    }
  }

  notice(changes: readonly Change[]): void {
    for (const { reference, object, previous, deleted } of changes) {
      const { uid, ownerReferences, deletionTimestamp } = metadataOf(object)
      if (!deleted && (ownerReferences !== undefined || deletionTimestamp !== undefined)) this.#enqueue(reference)
      if (previous !== undefined) this.#noticeOwners(reference, previous)
      if (deleted || this.#owners.isWaitingObject(reference)) {
        for (const dependent of this.#dependents(uid)) this.#enqueue(dependent)
      }
      if (deleted) this.#noticeDeleted(reference, object)
    }
  }

  async close(): Promise<void> {
    this.#stopped.abort()
    await this.#working
  }

  /** Queues the owners, because an owner may have waited for this dependent. */
  #noticeOwners(reference: ObjectReference, previous: JsonObject): void {
    for (const owner of metadataOf(previous).ownerReferences ?? []) {
      if (this.#owners.isWaiting(reference, owner)) this.#enqueue(ownerOf(reference, owner) ?? reference)
    }
  }

  #noticeDeleted(reference: ObjectReference, object: JsonObject): void {
    // A claim of this pod may now be unused.
    if (reference.kind === 'Pod') for (const claim of claimsOf(reference, object)) this.#enqueue(claim)
    const namespace = this.#state.get({ kind: 'Namespace', namespace: '', name: reference.namespace })
    if (namespace !== undefined && metadataOf(namespace).deletionTimestamp !== undefined) {
      this.#enqueue(referenceOf('Namespace', namespace))
    }
  }

  #enqueue(reference: ObjectReference): void {
    this.#queue.set(keyOf(reference), reference)
    this.#working ??= this.#work()
  }

  async #work(): Promise<void> {
    // Runs after the call that committed the change.
    await Promise.resolve()
    const { signal } = this.#stopped
    for (let next = this.#take(); next !== undefined && !signal.aborted; next = this.#take()) {
      try {
        await this.#collect(next)
      } catch (error) {
        // Another write changed or deleted the object first. A changed object is queued again.
        if (isClusterError(error, 'Conflict', 'NotFound')) continue
        if (signal.aborted) break
        this.#logger.warn({ err: error, object: keyOf(next) }, 'garbage collection of an object failed; will retry')
        this.#queue.set(keyOf(next), next)
        await delay(retryMs, undefined, { signal, ref: false }).catch(() => undefined)
      }
    }
    this.#working = undefined
  }

  #take(): ObjectReference | undefined {
    for (const [key, reference] of this.#queue) {
      this.#queue.delete(key)
      return reference
    }
    return undefined
  }

  async #collect(reference: ObjectReference): Promise<void> {
    const object = this.#state.get(reference)
    if (object === undefined) return
    const { deletionTimestamp, finalizers = [] } = metadataOf(object)
    if (deletionTimestamp === undefined) return this.#collectDependent(reference, object)
    if (protectionOf(reference.kind) !== undefined) await this.#actions.unprotect(reference)
    if (finalizers.includes(orphanFinalizer)) await this.#orphan(reference, object)
    if (finalizers.includes(foregroundFinalizer)) await this.#waitForDependents(reference, object)
    if (reference.kind === 'Namespace') await this.#empty(reference)
  }

  /** Deletes an object that has no remaining owner. If an owner remains, removes the references to deleted owners. */
  async #collectDependent(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid, resourceVersion, ownerReferences: owners = [], finalizers = [] } = metadataOf(object)
    const waiting = owners.filter(owner => this.#owners.isWaiting(reference, owner))
    const leaving = [...owners.filter(owner => !this.#owners.exists(reference, owner)), ...waiting]
    if (leaving.length === 0) return
    if (leaving.length < owners.length) {
      return this.#actions.dropOwners(reference, uid, new Set(leaving.map(owner => owner.uid)))
    }
    const dependents = this.#dependents(uid)
    if (waiting.length === 0 || dependents.length === 0) {
      return this.#actions.delete(reference, { uid, resourceVersion, propagation: propagationOf(finalizers) })
    }
    // Owners in a cycle would wait for each other forever.
    if (dependents.some(dependent => this.#owners.isWaitingObject(dependent))) {
      await this.#actions.unblockOwners(reference, uid)
    }
    await this.#actions.delete(reference, { uid, propagation: 'Foreground' })
  }

  /** Removes the foreground finalizer once no dependent blocks the deletion. */
  async #waitForDependents(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid } = metadataOf(object)
    const blocks = (dependent: ObjectReference): boolean => {
      const present = this.#state.get(dependent)
      const owners = present === undefined ? [] : (metadataOf(present).ownerReferences ?? [])
      return owners.some(owner => owner.uid === uid && owner.blockOwnerDeletion === true)
    }
    if (this.#dependents(uid).some(blocks)) return // queued again when a dependent changes
    await this.#actions.dropFinalizer(reference, uid, foregroundFinalizer)
  }

  async #orphan(reference: ObjectReference, object: JsonObject): Promise<void> {
    const { uid } = metadataOf(object)
    for (const dependent of this.#dependents(uid)) {
      const present = this.#state.get(dependent)
      if (present === undefined) continue
      await this.#actions.dropOwners(dependent, metadataOf(present).uid, new Set([uid ?? '']))
    }
    await this.#actions.dropFinalizer(reference, uid, orphanFinalizer)
  }

  async #empty(reference: ObjectReference): Promise<void> {
    // The deletions start at once, so that they share disk writes.
    const contents = this.#state.inNamespace(reference.name)
    await Promise.all(contents.map(content => this.#deleteContent(content)))
    await this.#actions.removeNamespace(reference)
  }

  async #deleteContent(content: ObjectReference): Promise<void> {
    const object = this.#state.get(content)
    if (object === undefined || metadataOf(object).deletionTimestamp !== undefined) return
    await this.#actions.delete(content, { uid: metadataOf(object).uid })
  }

  #dependents(uid: string | undefined): ObjectReference[] {
    return uid === undefined ? [] : this.#state.dependents(uid)
  }
}

/** Reads the state of an object's owners. */
class Owners {
  readonly #state: State

  constructor(state: State) {
    this.#state = state
  }

  /** Also returns true for an owner that this store cannot contain, so that the collector keeps the dependent. */
  exists(dependent: ObjectReference, owner: OwnerReference): boolean {
    const reference = ownerOf(dependent, owner)
    if (reference === undefined) return true
    const object = this.#state.get(reference)
    return object !== undefined && metadataOf(object).uid === owner.uid
  }

  isWaiting(dependent: ObjectReference, owner: OwnerReference): boolean {
    const reference = ownerOf(dependent, owner)
    return reference !== undefined && this.exists(dependent, owner) && this.isWaitingObject(reference)
  }

  /** Whether an object is being deleted in the foreground. */
  isWaitingObject(reference: ObjectReference): boolean {
    const object = this.#state.get(reference)
    if (object === undefined) return false
    const { deletionTimestamp, finalizers = [] } = metadataOf(object)
    return deletionTimestamp !== undefined && finalizers.includes(foregroundFinalizer)
  }
}

/** Returns the owner that a dependent names: in the dependent's namespace, or cluster-scoped. */
function ownerOf(dependent: ObjectReference, owner: OwnerReference): ObjectReference | undefined {
  if (!isKind(owner.kind) || kindInfo[owner.kind].apiVersion !== owner.apiVersion) return undefined
  const { namespaced } = kindInfo[owner.kind]
  if (namespaced && dependent.namespace === '') return undefined
  return { kind: owner.kind, namespace: namespaced ? dependent.namespace : '', name: owner.name }
}

/** Returns the propagation policy that an object's finalizers request. */
function propagationOf(finalizers: readonly string[]): Propagation {
  if (finalizers.includes(orphanFinalizer)) return 'Orphan'
  return finalizers.includes(foregroundFinalizer) ? 'Foreground' : 'Background'
}

const isKind = (kind: string): kind is KindName => Object.hasOwn(kindInfo, kind)
