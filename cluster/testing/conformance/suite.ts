/**
 * Shared by the conformance tests: the adapter under test, namespaces, waiting for asynchronous work of the cluster,
 * and collecting the events of a watch.
 */
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type {
  Cluster,
  ClusterErrorReason,
  Draft,
  KindName,
  Kinds,
  ObjectKey,
  WatchEvent,
  WatchOptions,
} from '../../index.ts'
import { ClusterError, isClusterError } from '../../index.ts'

/** A cluster that conformance tests may write to, with all of crds/ installed. */
export type ConformanceTarget = {
  /** Creates a client of the cluster. Its applies use this field manager. */
  connect(fieldManager: string): Promise<Cluster>
  close(): Promise<void>
  /**
   * Whether the target collects dependents, empties namespaces and releases claims. kube-apiserver alone does none of
   * this; kube-controller-manager does. If false, these tests are skipped. Default: true.
   */
  garbageCollection?: boolean
  /**
   * A storage class whose volumes may grow, and that no provisioner serves. Without it, the tests of growth are
   * skipped.
   */
  growingClass?: string
  /**
   * The ConfigMap that the cluster itself creates in each namespace, some time after the namespace. Tests begin when it
   * exists, because it would appear in their lists and watches.
   */
  ownConfigMap?: string
  /** A resourceVersion of ManagedDatabases that has certainly expired. Without it, the test of `Expired` is skipped. */
  expiredVersion?: () => Promise<string>
  /** How long the first bookmark of a quiet watch may take, in ms. Default 30,000; kube-apiserver takes a minute. */
  bookmarkWithin?: number
}

/** The parameters of each group of tests. */
export type Suite = {
  /** The target, opened before the first test. */
  target(): ConformanceTarget
  /** The client that most tests use, with field manager `conformance`. */
  cluster(): Cluster
  /** Creates a namespace, deleted after the test. */
  namespace(): Promise<string>
  /** Deletes this cluster-scoped object after the test. */
  removeAfterwards(kind: KindName, name: string): void
  /**
   * A watch of a namespace to which no other test writes. If bookmarks take a minute, the watch began before the first
   * test.
   */
  quiet(): Promise<QuietWatch>
}

/** A unique name: `prefix` and 10 letters and digits, beginning with a letter. */
export const uniqueName = (prefix: string): string => `${prefix}${randomBytes(5).toString('hex')}`

/** Runs `check` until it passes. After the deadline, throws its last failure. */
export async function eventually<T>(check: () => Promise<T> | T, deadlineMs = 20_000): Promise<T> {
  const deadline = Date.now() + deadlineMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
}

/** Returns the object, which must exist. */
export async function stored<K extends KindName>(cluster: Cluster, kind: K, key: ObjectKey): Promise<Kinds[K]> {
  const object = await cluster.get(kind, key)
  if (object === undefined) throw new Error(`${kind} ${key.namespace ?? ''}/${key.name} is not there`)
  return object
}

/**
 * Retries, because the controllers of a real cluster write the status at any time, and the write must then be decided
 * again.
 */
export async function undisturbed<T>(decideAndWrite: () => Promise<T>): Promise<T> {
  for (let attempts = 20; ; attempts--) {
    try {
      return await decideAndWrite()
    } catch (error) {
      if (attempts === 0 || !(error instanceof ClusterError) || error.reason !== 'Conflict') throw error
    }
  }
}

/** Returns the error of an action that must be refused for one of these reasons. */
export async function refusal(action: Promise<unknown>, ...reasons: ClusterErrorReason[]): Promise<ClusterError> {
  const error = await action.then(
    () => new Error('was not refused'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ClusterError)) throw error
  expect(reasons, error.message).toContain(error.reason)
  return error
}

/** An object that violates the types, as an untyped client would send it. */
export const untyped = <K extends KindName>(object: object): Draft<K> => object as Draft<K>

/** A resourceVersion as a number, for comparisons within one kind. */
export const versionOf = (object: { metadata: { resourceVersion?: string } }): bigint =>
  BigInt(object.metadata.resourceVersion ?? 'none')

/** The key of an object that a cluster returned. */
export const keyOf = (object: { metadata: { namespace?: string; name: string } }): ObjectKey => ({
  namespace: object.metadata.namespace,
  name: object.metadata.name,
})

type Collector<K extends KindName> = {
  /** All events except bookmarks, in order of arrival. */
  events: Exclude<WatchEvent<Kinds[K]>, { type: 'BOOKMARK' }>[]
  bookmarks: string[]
  /** Waits until this many events have arrived. Fails as soon as the watch fails. */
  until(count: number): Promise<void>
  /** The error that ended the watch, if any. */
  ended(): { error?: unknown } | undefined
  /** Aborts the watch and waits until it ends without an error. */
  stop(): Promise<void>
}

/** Starts a watch and collects its events. */
export function collect<K extends KindName>(
  cluster: Cluster,
  kind: K,
  options: Omit<WatchOptions, 'signal'>,
): Collector<K> {
  const abort = new AbortController()
  const events: Collector<K>['events'] = []
  const bookmarks: string[] = []
  let end: { error?: unknown } | undefined
  const run = async (): Promise<void> => {
    for await (const event of cluster.watch(kind, { ...options, signal: abort.signal })) {
      if (event.type === 'BOOKMARK') bookmarks.push(event.resourceVersion)
      else events.push(event)
    }
  }
  const running = run().then(
    () => {
      end = {}
    },
    (error: unknown) => {
      end = { error }
    },
  )
  return {
    events,
    bookmarks,
    ended: () => end,
    until: count =>
      eventually(() => {
        if (events.length >= count) return
        if (end?.error !== undefined) throw end.error
        throw new Error(`${events.length} of ${count} events came: ${events.map(event => event.type).join(', ')}`)
      }),
    stop: async () => {
      abort.abort()
      await running
      if (end?.error !== undefined) throw end.error
    },
  }
}

export type QuietWatch = { namespace: string; resourceVersion: string; watch: Collector<'ManagedDatabase'> }

/** Starts a watch of ManagedDatabases in a new namespace. The caller stops the watch and deletes the namespace. */
export async function watchQuietly(cluster: Cluster): Promise<QuietWatch> {
  const namespace = uniqueName('conformance-')
  await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  const { resourceVersion } = await cluster.list('ManagedDatabase', { namespace })
  return { namespace, resourceVersion, watch: collect(cluster, 'ManagedDatabase', { namespace, resourceVersion }) }
}

/** Deletes an object and waits until it no longer exists. An object that never existed is not an error. */
export async function remove(cluster: Cluster, kind: KindName, key: ObjectKey): Promise<void> {
  await cluster.delete(kind, key)
  await eventually(async () => {
    if ((await cluster.get(kind, key)) !== undefined) throw new Error(`${kind} ${key.name} is still there`)
  })
}

/** Returns how many of these actions were refused. Checks that every refusal has this reason. */
export async function refusedOf(actions: Promise<unknown>[], reason: ClusterErrorReason): Promise<number> {
  const results = await Promise.allSettled(actions)
  const refusals = results.filter(result => result.status === 'rejected').map(result => result.reason as unknown)
  for (const error of refusals) if (!isClusterError(error, reason)) throw error
  return refusals.length
}
