/** Tells when an operator does nothing more by itself: it waits for what a test holds back. */
import { setTimeout as delay } from 'node:timers/promises'

export type Activity = {
  /** Something happened. */
  touch(): void
  /** Resolves once nothing has happened for so long. @throws where that does not come about */
  quiet(forMs?: number): Promise<void>
}

/** Longer than an operator needs between two effects, and than its first retries. */
const quietMs = 60
const withinMs = 10_000

export function createActivity(): Activity {
  let last = performance.now()
  return {
    touch: () => {
      last = performance.now()
    },
    quiet: async (forMs = quietMs) => {
      last = performance.now()
      const until = last + withinMs
      for (let left = forMs; left > 0; left = last + forMs - performance.now()) {
        if (performance.now() > until) throw new Error(`the operator has not come to rest in ${withinMs} ms`)
        await delay(left)
      }
    },
  }
}
