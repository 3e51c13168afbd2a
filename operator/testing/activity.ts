/** Detects when an operator is idle because it waits for something that a test delays. */
import { setTimeout as delay } from 'node:timers/promises'

export type Activity = {
  /** Records an activity. */
  touch(): void
  /** Resolves when nothing has happened for this long. @throws after a timeout */
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
      for (let remainingMs = forMs; remainingMs > 0; remainingMs = last + forMs - performance.now()) {
        if (performance.now() > until) throw new Error(`the operator was not idle within ${withinMs} ms`)
        await delay(remainingMs)
      }
    },
  }
}
