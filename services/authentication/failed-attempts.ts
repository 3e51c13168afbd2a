/**
 * Counts failed login attempts by the network of the client address, or by another key. The limit for a window includes
 * concurrent attempts. A successful attempt is not counted. Memory is limited.
 */
import { LRUCache } from 'lru-cache'
import { networkOf } from '../http/address.ts'

type Rule = { readonly windowMs: number; readonly most: number }

/** An attempt that was allowed. It counts as failed until it succeeds. */
type Attempt =
  | { readonly kind: 'allowed'; succeeded(): void }
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }

export type FailedAttempts = {
  begin(address: string): Attempt
  /** Removes all failures of the key. */
  forget(address: string): void
}

/** The maximum attempts of all keys together. Each key counts as some additional attempts. */
const mostAttempts = 1_000_000
const sizeOfKey = 20

/** `keyOf` returns a short text. */
export function limitFailedAttempts(
  { windowMs, most }: Rule,
  now: () => number,
  keyOf: (address: string) => string = networkOf,
): FailedAttempts {
  /** The times of the attempts in the window, oldest first. */
  const byKey = new LRUCache<string, number[]>({
    maxSize: mostAttempts,
    sizeCalculation: attempts => sizeOfKey + attempts.length,
  })
  return {
    begin(address) {
      const at = now()
      const key = keyOf(address)
      const recent = (byKey.get(key) ?? []).filter(one => one > at - windowMs)
      const [oldest = at] = recent
      if (recent.length >= most) {
        byKey.set(key, recent)
        return { kind: 'limited', retryAfterSeconds: Math.max(1, Math.ceil((oldest + windowMs - at) / 1_000)) }
      }
      byKey.set(key, [...recent, at])
      return {
        kind: 'allowed',
        succeeded() {
          const known = byKey.get(key) ?? []
          const index = known.indexOf(at)
          if (index >= 0) byKey.set(key, known.toSpliced(index, 1))
        },
      }
    },
    forget: address => void byKey.delete(keyOf(address)),
  }
}
