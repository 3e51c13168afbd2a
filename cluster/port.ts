/**
 * The port through which all of Espalier accesses a cluster. It has two adapters: `kubernetes/` (a real API server) and
 * `embedded/` (one machine). Its semantics are those of the API server. `conformance.ts` tests them for every adapter.
 *
 * Returned objects are shared: a caller must not change them.
 */
import type { KindName, Kinds } from './kinds.ts'

/** The name of an object; `namespace` is absent for cluster-scoped kinds. */
export type ObjectKey = { namespace?: string | undefined; name: string }

/** Equality-based selection: every label must have this value. `true` means that the label must exist. */
export type LabelSelector = Record<string, string | true>

/** Which objects of a kind to select. */
export type Selection = {
  /** Omitted: all namespaces. */
  namespace?: string | undefined
  labels?: LabelSelector | undefined
  /** Only for Tasks: selects Tasks that have not ended. */
  open?: true | undefined
}

export type ListOptions = Selection & {
  /** Only for Events: selects Events about the object with this uid. */
  about?: string | undefined
  /** The maximum number of items. `continueToken` requests the rest. */
  limit?: number | undefined
  continueToken?: string | undefined
}

export type ListResult<T> = {
  items: T[]
  /** A watch from this version misses no change after the list. */
  resourceVersion: string
  continueToken?: string | undefined
}

/** An object that no longer matches the selection is reported as DELETED, with its last matching state. */
export type WatchOptions = Selection & {
  /** The watch returns events after this version, which comes from a list or from the last event. */
  resourceVersion: string
  signal: AbortSignal
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  /** Nothing changed up to this version. */
  | { type: 'BOOKMARK'; resourceVersion: string }

/** What happens to the dependents of a deleted object. */
export type Propagation = 'Background' | 'Foreground' | 'Orphan'

export type DeleteOptions = {
  uid?: string | undefined
  resourceVersion?: string | undefined
  /**
   * `Background` (default): dependents are collected afterwards. `Foreground`: they are deleted at once; the object
   * remains, with a deletionTimestamp and the finalizer `foregroundDeletion`, until the dependents with
   * blockOwnerDeletion are deleted. `Orphan`: they remain.
   */
  propagation?: Propagation | undefined
}

export type LogOptions = {
  container?: string | undefined
  /** The number of newest lines. */
  tailLines?: number | undefined
  sinceTime?: string | undefined
  /**
   * Whether to return the log of the previous container. If it is not retained, the log of the current container is
   * returned.
   */
  previous?: boolean | undefined
}

/** The input of `create` and `apply`: the object without the fields that only the server sets. */
export type Draft<K extends KindName> = Omit<Kinds[K], 'status' | 'spec'> & {
  /** Fields with defaults may be omitted. */
  spec?: K extends keyof Kinds
    ? Kinds[K] extends { spec: infer S }
      ? Partial<S>
      : Kinds[K] extends { spec?: infer S }
        ? S
        : never
    : never
}

export interface Cluster {
  /** Returns the object; undefined if it does not exist. Reads the stored state, not a cache. */
  get<K extends KindName>(kind: K, key: ObjectKey): Promise<Kinds[K] | undefined>

  /**
   * @throws ClusterError `Expired` for a continueToken that is too old, `BadRequest` for invalid labels, or for `about`
   * or `open` with another kind.
   */
  list<K extends KindName>(kind: K, options?: ListOptions): Promise<ListResult<Kinds[K]>>

  /**
   * Returns every change after `resourceVersion`, in order, each once. Ends without an error when the signal aborts or
   * the server closes the stream; then watch again from the last received version.
   * @throws ClusterError `Expired` if that version is no longer available: list again.
   */
  watch<K extends KindName>(kind: K, options: WatchOptions): AsyncIterable<WatchEvent<Kinds[K]>>

  /** @throws ClusterError `AlreadyExists`, `Invalid`, `NotFound` (its namespace). Status in the object is ignored. */
  create<K extends KindName>(kind: K, object: Draft<K>): Promise<Kinds[K]>

  /**
   * Replaces the object, except its status. The object must have the current resourceVersion. If this removes the last
   * finalizer of an object with a deletionTimestamp, the object is deleted.
   * @throws ClusterError `Conflict`, `NotFound`, `Invalid`
   */
  replace<K extends KindName>(kind: K, object: Kinds[K]): Promise<Kinds[K]>

  /**
   * Server-side apply with this adapter's field manager and force. Creates the object, or sets exactly the fields of
   * the draft, and removes the fields that the previous apply set and this apply omits. An apply that changes nothing
   * keeps the resourceVersion. A resourceVersion in the draft's metadata guards an existing object. Only a uid prevents
   * the creation of an absent object.
   * @throws ClusterError `Conflict`, `Invalid`
   */
  apply<K extends KindName>(kind: K, object: Draft<K>): Promise<Kinds[K]>

  /**
   * Replaces only the status of the object with the same resourceVersion. A write that changes nothing keeps the
   * resourceVersion.
   * @throws ClusterError `Conflict`, `NotFound`, `Invalid`
   */
  replaceStatus<K extends KindName>(kind: K, object: Kinds[K]): Promise<Kinds[K]>

  /**
   * Requests deletion. An object with finalizers remains, with a deletionTimestamp, until its finalizers are removed.
   * Deleting an absent object is not an error.
   * @throws ClusterError `Conflict` if a precondition fails
   */
  delete(kind: KindName, key: ObjectKey, options?: DeleteOptions): Promise<void>

  /** Lines of a container's output, oldest first, each as `<RFC 3339 time> <line>`. */
  logs(pod: ObjectKey, options?: LogOptions): Promise<string[]>
}
