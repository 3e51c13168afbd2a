/**
 * The streams of this process by account, and the changes that each stream receives. Changes come from the caches, so
 * they include changes by other replicas, the operator and kubectl. Streams are limited per account and in total.
 */

import type { ApiContext } from '../context.ts'
import { tooManyStreams, unavailable } from '../errors.ts'
import { backupChange, branchChange, databaseChange, taskChange } from './change.ts'
import type { Change } from './schema.ts'
import { createEventStream, type EventStream } from './stream.ts'

const mostStreams = 500
const mostOfOne = 50
const beatMs = 15_000

type Subscription = {
  /** The account's namespace. A stream receives only changes of objects in this namespace. */
  namespace: string
  /** Until when the token is valid without another check, in milliseconds since the epoch. */
  until: number
  /** Whether the caller may still read. */
  isAllowed: () => boolean
}

type EventHub = {
  /** @throws ApiError 429, 503 */
  open(subscription: Subscription): EventStream
  readonly size: number
}

export function createEventHub({ caches, stopping, now }: Pick<ApiContext, 'caches' | 'stopping' | 'now'>): EventHub {
  const streams = new Map<string, Map<EventStream, Subscription>>()
  let size = 0
  let beating: NodeJS.Timeout | undefined

  const all = () => [...streams.values()].flatMap(ofOne => [...ofOne])

  function publish(namespace: string | undefined, read: () => Change | undefined): void {
    const ofOne = namespace === undefined ? undefined : streams.get(namespace)
    if (ofOne === undefined) return
    const change = read()
    if (change !== undefined) for (const stream of ofOne.keys()) stream.send(change)
  }
  caches.ManagedDatabase.onChange(change => publish(change.object.metadata.namespace, () => databaseChange(change)))
  caches.Branch.onChange(change => publish(change.object.metadata.namespace, () => branchChange(change)))
  caches.Backup.onChange(change => publish(change.object.metadata.namespace, () => backupChange(change)))
  caches.Task.onChange(change => publish(change.object.metadata.namespace, () => taskChange(caches, change)))

  function beat(): void {
    for (const [stream, { until, isAllowed }] of all()) {
      if (now() >= until || !isAllowed()) stream.end()
      else stream.beat()
    }
  }

  stopping.addEventListener('abort', () => {
    for (const [stream] of all()) stream.end()
  })

  function remove(namespace: string, stream: EventStream): void {
    const ofOne = streams.get(namespace)
    if (ofOne?.delete(stream) !== true) return
    size--
    if (ofOne.size === 0) streams.delete(namespace)
    if (size > 0) return
    clearInterval(beating)
    beating = undefined
  }

  return {
    open(subscription) {
      const { namespace } = subscription
      const ofOne = streams.get(namespace) ?? new Map<EventStream, Subscription>()
      if (stopping.aborted) throw unavailable('stopping')
      if (ofOne.size >= mostOfOne) throw tooManyStreams(mostOfOne)
      if (size >= mostStreams) throw unavailable('too many event streams are open: retry')
      const stream = createEventStream(() => remove(namespace, stream))
      streams.set(namespace, ofOne.set(stream, subscription))
      size++
      beating ??= setInterval(beat, beatMs).unref()
      return stream
    },
    get size() {
      return size
    },
  }
}
