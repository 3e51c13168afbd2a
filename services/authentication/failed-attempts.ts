/**
 * Failed attempts to log in, by the network of the address that they come from, or by another key. A key has so many in a window and no more, however many are made at once; an attempt
 * that succeeds is taken back; and what is remembered is limited.
 */
import { LRUCache } from 'lru-cache'
import { networkOf } from '../http/address.ts'

type Rule = { readonly windowMs: number; readonly most: number }

/** An attempt that was let in: it counts as failed until it is known not to be. */
type Attempt =
  | { readonly kind: 'allowed'; succeeded(): void }
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }

export type FailedAttempts = {
  begin(address: string): Attempt
  /** Forgets all failures of the key. */
  forget(address: string): void
}

/** Of all keys, each of which counts as some attempts more. */
const mostAttempts = 1_000_000
const sizeOfKey = 20

/** `keyOf` returns a short text. */
export function limitFailedAttempts(
  { windowMs, most }: Rule,
  now: () => number,
  keyOf: (address: string) => string = networkOf,
): FailedAttempts {
  /** When each attempt of the window was made, the oldest first. */
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
