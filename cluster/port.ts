/**
 * The port through which all of Espalier speaks to a cluster. Two adapters stand behind it: `kubernetes/` (a real API
 * server) and `embedded/` (one machine). Its semantics are the API server's; `conformance.ts` states them as tests,
 * and every adapter passes them.
 *
 * Objects that come back are shared: a caller never changes one in place.
 */
import type { KindName, Kinds } from './kinds.ts'

/** Names an object of a kind; `namespace` is absent for cluster-scoped kinds. */
export type ObjectKey = { namespace?: string | undefined; name: string }

/** Equality-based selection: every label must have this value, or be present where the value is `true`. */
export type LabelSelector = Record<string, string | true>

/** Which objects of a kind are meant. */
export type Selection = {
  /** Omitted: all namespaces. */
  namespace?: string | undefined
  labels?: LabelSelector | undefined
  /** Of Tasks only: those that have not ended. */
  open?: true | undefined
}

export type ListOptions = Selection & {
  /** Of Events only: those about the object of this uid. */
  about?: string | undefined
  /** At most this many items; the rest by `continueToken`. */
  limit?: number | undefined
  continueToken?: string | undefined
}

export type ListResult<T> = {
  items: T[]
  /** Watch from here to miss nothing after this list. */
  resourceVersion: string
  continueToken?: string | undefined
}

/** An object that ceases to be selected is DELETED, as it was when it last was selected. */
export type WatchOptions = Selection & {
  /** Events after this version; from a list, or the last event's. */
  resourceVersion: string
  signal: AbortSignal
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  /** Nothing changed up to this version. */
  | { type: 'BOOKMARK'; resourceVersion: string }

/** What a deletion means for the objects that name the deleted one as their owner. */
export type Propagation = 'Background' | 'Foreground' | 'Orphan'

export type DeleteOptions = {
  uid?: string | undefined
  resourceVersion?: string | undefined
  /**
   * `Background` (default): dependents are collected afterwards. `Foreground`: they are deleted at once, and the object
   * stays, marked and with the finalizer `foregroundDeletion`, until those with blockOwnerDeletion are gone. `Orphan`:
   * they stay.
   */
  propagation?: Propagation | undefined
}

export type LogOptions = {
  container?: string | undefined
  /** The newest so many lines. */
  tailLines?: number | undefined
  sinceTime?: string | undefined
  /** Of the container before the present one, where that is kept apart: without it, of the present one. */
  previous?: boolean | undefined
}

/** What is sent to `create` and `apply`: the object without what only the server sets. */
export type Draft<K extends KindName> = Omit<Kinds[K], 'status' | 'spec'> & {
  /** Fields with defaults may be left out. */
  spec?: K extends keyof Kinds
    ? Kinds[K] extends { spec: infer S }
      ? Partial<S>
      : Kinds[K] extends { spec?: infer S }
        ? S
        : never
    : never
}

export interface Cluster {
  /** The object, or undefined where there is none. Reads what is stored now, not a cache. */
  get<K extends KindName>(kind: K, key: ObjectKey): Promise<Kinds[K] | undefined>

  /** @throws ClusterError `Expired` for a continueToken that is too old, `BadRequest` for labels that are none, or `about` or `open` of another kind. */
  list<K extends KindName>(kind: K, options?: ListOptions): Promise<ListResult<Kinds[K]>>

  /**
   * Every change after `resourceVersion`, in order, each once, until the signal aborts (then it ends quietly) or the
   * server closes the stream (it ends; watch again from the last version seen).
   * @throws ClusterError `Expired` where that version is gone: list again.
   */
  watch<K extends KindName>(kind: K, options: WatchOptions): AsyncIterable<WatchEvent<Kinds[K]>>

  /** @throws ClusterError `AlreadyExists`, `Invalid`, `NotFound` (its namespace). Status in the object is ignored. */
  create<K extends KindName>(kind: K, object: Draft<K>): Promise<Kinds[K]>

  /**
   * Writes the whole object but its status over the one with the same resourceVersion, which must be given.
   * An object marked for deletion whose last finalizer this removes is gone afterwards.
   * @throws ClusterError `Conflict`, `NotFound`, `Invalid`
   */
  replace<K extends KindName>(kind: K, object: Kinds[K]): Promise<Kinds[K]>

  /**
   * Server-side apply by this adapter's field manager, with force: creates the object, or sets exactly the fields in
   * the draft and removes those that an earlier apply of ours set and this one does not. An apply that changes
   * nothing leaves the resourceVersion as it is. A resourceVersion in the draft's metadata guards an object that is
   * there; only a uid keeps an absent one from being created.
   * @throws ClusterError `Conflict`, `Invalid`
   */
  apply<K extends KindName>(kind: K, object: Draft<K>): Promise<Kinds[K]>

  /**
   * Replaces the status of the object with the same resourceVersion, and nothing else. One that changes nothing
   * leaves the resourceVersion as it is.
   * @throws ClusterError `Conflict`, `NotFound`, `Invalid`
   */
  replaceStatus<K extends KindName>(kind: K, object: Kinds[K]): Promise<Kinds[K]>

  /**
   * Asks for deletion; an object with finalizers stays, with a deletionTimestamp, until they are removed.
   * Deleting what is not there is no error.
   * @throws ClusterError `Conflict` where a precondition does not hold
   */
  delete(kind: KindName, key: ObjectKey, options?: DeleteOptions): Promise<void>

  /** Lines of a container's output, oldest first, each as `<RFC 3339 time> <line>`. */
  logs(pod: ObjectKey, options?: LogOptions): Promise<string[]>
}
