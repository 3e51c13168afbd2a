/**
 * Calls the handlers for changes: every handler for every change, in the same order. A change that a handler causes
 * waits until all handlers have received the current change. If a handler throws or rejects, this is reported and does
 * not affect the others.
 */
import type { Cacheable, Change } from './cache.ts'

export type Handler<T> = (change: Change<T>) => void

type Notifier<T> = {
  publish: (changes: readonly Change<T>[]) => void
  /** Calls the handler with the existing objects, then with every change. Returns a function that unsubscribes. */
  subscribe: (handler: Handler<T>, existing: readonly T[]) => () => void
}

export function createNotifier<T extends Cacheable>(hooks: {
  /** Called after all handlers have received a change. */
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
      let isRemoved = false
      const begin = () => {
        for (const object of existing) call(handler, { type: 'set', object })
        if (!isRemoved) handlers.add(handler)
      }
      deliver([begin])
      return () => {
        isRemoved = true
        handlers.delete(handler)
      }
    },
  }
}
