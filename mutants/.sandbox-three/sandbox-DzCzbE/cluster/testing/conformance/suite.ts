/**
 * What the conformance tests share: the adapter under test, namespaces of their own, waiting for what a cluster does
 * by itself, and collecting the events of a watch.
 */
// @ts-nocheck

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
  /** One client of the cluster; its applies are made under this field manager. */
  connect(fieldManager: string): Promise<Cluster>
  close(): Promise<void>
  /**
   * Whether dependents are collected, namespaces emptied and claims released: a bare kube-apiserver does none of it,
   * kube-controller-manager beside it does. The tests of these skip where it is false. Default true.
   */
  garbageCollection?: boolean
  /** A storage class whose volumes may grow, and that nothing makes any of. Without it the tests of growth are skipped. */
  growingClass?: string
  /** A resourceVersion of ManagedDatabases that is certainly gone. Without it the test of `Expired` is skipped. */
  expiredVersion?: () => Promise<string>
  /** How long the first bookmark of a quiet watch may take, in ms. Default 30,000; kube-apiserver takes a minute. */
  bookmarkWithin?: number
}

/** What each group of tests gets. */
export type Suite = {
  /** The target, opened before the first test. */
  target(): ConformanceTarget
  /** The client most tests use, field manager `conformance`. */
  cluster(): Cluster
  /** A new namespace, removed when the test has ended. */
  namespace(): Promise<string>
  /** Deletes this cluster-scoped object after the test. */
  removeAfterwards(kind: KindName, name: string): void
}

/** A name nobody else has: `prefix` and 10 letters and digits, beginning with a letter. */
export const uniqueName = (prefix: string): string => `${prefix}${randomBytes(5).toString('hex')}`

/** Runs `check` until it passes or the deadline is over; then its last failure is thrown. */
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

/** The object, which must be there. */
export async function stored<K extends KindName>(cluster: Cluster, kind: K, key: ObjectKey): Promise<Kinds[K]> {
  const object = await cluster.get(kind, key)
  if (object === undefined) throw new Error(`${kind} ${key.namespace ?? ''}/${key.name} is not there`)
  return object
}

/** A whole cluster's controllers write a status at moments of their own: what was decided before is then decided anew. */
export async function undisturbed<T>(decideAndWrite: () => Promise<T>): Promise<T> {
  for (let left = 20; ; left--) {
    try {
      return await decideAndWrite()
    } catch (error) {
      if (left === 0 || !(error instanceof ClusterError) || error.reason !== 'Conflict') throw error
    }
  }
}

/** The refusal of an action that must be refused for one of these reasons. */
export async function refusal(action: Promise<unknown>, ...reasons: ClusterErrorReason[]): Promise<ClusterError> {
  const error = await action.then(
    () => new Error('was not refused'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ClusterError)) throw error
  expect(reasons, error.message).toContain(error.reason)
  return error
}

/** An object that the types would refuse, as it comes from a client that has none. */
export const untyped = <K extends KindName>(object: object): Draft<K> => object as Draft<K>

/** A resourceVersion as the number by which versions of one kind compare. */
export const versionOf = (object: { metadata: { resourceVersion?: string } }): bigint =>
  BigInt(object.metadata.resourceVersion ?? 'none')

/** The key of an object that came from a cluster. */
export const keyOf = (object: { metadata: { namespace?: string; name: string } }): ObjectKey => ({
  namespace: object.metadata.namespace,
  name: object.metadata.name,
})

type Collector<K extends KindName> = {
  /** Everything but bookmarks, in order of arrival. */
  events: Exclude<WatchEvent<Kinds[K]>, { type: 'BOOKMARK' }>[]
  bookmarks: string[]
  /** Waits until so many events came; fails as soon as the watch does. */
  until(count: number): Promise<void>
  /** What ended the watch, if something did. */
  ended(): { error?: unknown } | undefined
  /** Aborts the watch and waits for its quiet end. */
  stop(): Promise<void>
}

/** Starts to watch and keeps what comes. */
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

/** Deletes, and waits until the object is gone; no error where it never was. */
export async function remove(cluster: Cluster, kind: KindName, key: ObjectKey): Promise<void> {
  await cluster.delete(kind, key)
  await eventually(async () => {
    if ((await cluster.get(kind, key)) !== undefined) throw new Error(`${kind} ${key.name} is still there`)
  })
}

/** How many of these were refused, and that every refusal was for this reason. */
export async function refusedOf(actions: Promise<unknown>[], reason: ClusterErrorReason): Promise<number> {
  const results = await Promise.allSettled(actions)
  const refusals = results.filter(result => result.status === 'rejected').map(result => result.reason as unknown)
  for (const error of refusals) if (!isClusterError(error, reason)) throw error
  return refusals.length
}
