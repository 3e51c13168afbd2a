/**
 * Tells handlers of changes: every handler of every change, in one order. A change that a handler causes waits until
 * all have heard of the one it was told of. A handler that throws or rejects is reported and hinders no other.
 */
// @ts-nocheck

import type { Cacheable, Change } from './cache.ts'

export type Handler<T> = (change: Change<T>) => void

type Notifier<T> = {
  publish: (changes: readonly Change<T>[]) => void
  /** Tells the handler of what is there, and from then on of every change; the returned function ends it. */
  subscribe: (handler: Handler<T>, existing: readonly T[]) => () => void
}

export function createNotifier<T extends Cacheable>(hooks: {
  /** After all handlers have heard of a change. */
  delivered: (change: Change<T>) => void
  failed: (object: T, error: unknown) => void
}): Notifier<T> {
  const handlers = new Set<Handler<T>>()
  const undelivered: (() => void)[] = []

  const deliver = (deliveries: readonly (() => void)[]) => {
    const delivering = undelivered.length > 0
    for (const delivery of deliveries) undelivered.push(delivery)
    if (delivering) return
    for (let next = 0; next < undelivered.length; next++) undelivered[next]?.()
    undelivered.length = 0
  }

  const call = (handler: Handler<T>, change: Change<T>) => {
    try {
      const result: unknown = handler(change)
      if (result instanceof Promise) result.catch(error => hooks.failed(change.object, error))
    } catch (error) {
      hooks.failed(change.object, error)
    }
  }

  return {
    publish: changes =>
      deliver(
        changes.map(change => () => {
          for (const handler of [...handlers]) call(handler, change)
          hooks.delivered(change)
        }),
      ),
    subscribe: (handler, existing) => {
      let left = false
      const begin = () => {
        for (const object of existing) call(handler, { type: 'set', object })
        if (!left) handlers.add(handler)
      }
      deliver([begin])
      return () => {
        left = true
        handlers.delete(handler)
      }
    },
  }
}
