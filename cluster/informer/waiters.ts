/** Waits on single objects. Each wait has its own key, so a change costs only the waits for that object. */
import type { Clock } from './clock.ts'

export type WaitOptions = { timeoutMs: number; signal?: AbortSignal | undefined }

/** `object`: the last state read. `satisfied`: whether the predicate was true for it. */
export type WaitResult<T> = { satisfied: boolean; object: T | undefined }

type Waiter<T> = { check: (object: T | undefined) => void; giveUp: () => void }

type Waiters<T> = {
  wait: (
    key: string,
    current: () => T | undefined,
    predicate: (object: T | undefined) => boolean,
    options: WaitOptions,
  ) => Promise<WaitResult<T>>
  /** Reports the new state of the object with this key. */
  changed: (key: string, object: T | undefined) => void
  /** Ends every wait as unsatisfied. Later waits end at their first check. */
  close: () => void
}

export function createWaiters<T>(clock: Clock): Waiters<T> {
  const waiting = new Map<string, Set<Waiter<T>>>()
  let closed = false

  const add = (key: string, waiter: Waiter<T>) => {
    const set = waiting.get(key)
    if (set) set.add(waiter)
    else waiting.set(key, new Set([waiter]))
  }
  const remove = (key: string, waiter: Waiter<T>) => {
    const set = waiting.get(key)
    if (set?.delete(waiter) && set.size === 0) waiting.delete(key)
  }

  return {
    async wait(key, current, predicate, { timeoutMs, signal }) {
      const first = current()
      if (predicate(first)) return { satisfied: true, object: first }
      if (closed || signal?.aborted || timeoutMs <= 0) return { satisfied: false, object: first }
      return await new Promise<WaitResult<T>>((resolve, reject) => {
        const leave = () => {
          cancel()
          signal?.removeEventListener('abort', giveUp)
          remove(key, waiter)
        }
        const giveUp = () => {
          leave()
          resolve({ satisfied: false, object: current() })
        }
        const check = (object: T | undefined) => {
          try {
            if (!predicate(object)) return
            leave()
            resolve({ satisfied: true, object })
          } catch (error) {
            leave()
            reject(error)
          }
        }
        const waiter: Waiter<T> = { check, giveUp }
        const cancel = clock.after(timeoutMs, giveUp)
        signal?.addEventListener('abort', giveUp, { once: true })
        add(key, waiter)
      })
    },
    changed(key, object) {
      for (const waiter of [...(waiting.get(key) ?? [])]) waiter.check(object)
    },
    close() {
      closed = true
      for (const set of [...waiting.values()]) for (const waiter of [...set]) waiter.giveUp()
    },
  }
}
