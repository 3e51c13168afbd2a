/**
 * Failed attempts to log in, by the address they come from. It promises that an address has so many a window and no more, whoever it tries to
 * be and however many at once; that one that succeeds gives nobody more; and that what is remembered is bounded.
 */
import { LRUCache } from 'lru-cache'
import { networkOf } from '../http/address.ts'

type Rule = { readonly windowMs: number; readonly most: number }

/** An attempt that was let in: it counts as failed until it is known not to be. */
type Attempt =
  | { readonly kind: 'allowed'; succeeded(): void }
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }

export type FailedAttempts = { begin(address: string): Attempt }

/** Of all addresses, each of which counts as some attempts more. */
const mostAttempts = 1_000_000
const sizeOfAddress = 20

export function limitFailedAttempts({ windowMs, most }: Rule, now: () => number): FailedAttempts {
  /** When each attempt of the window was made, the oldest first. */
  const byAddress = new LRUCache<string, number[]>({
    maxSize: mostAttempts,
    sizeCalculation: attempts => sizeOfAddress + attempts.length,
  })
  return {
    begin(address) {
      const at = now()
      const key = networkOf(address)
      const recent = (byAddress.get(key) ?? []).filter(one => one > at - windowMs)
      const [oldest = at] = recent
      if (recent.length >= most) {
        byAddress.set(key, recent)
        return { kind: 'limited', retryAfterSeconds: Math.max(1, Math.ceil((oldest + windowMs - at) / 1_000)) }
      }
      byAddress.set(key, [...recent, at])
      return {
        kind: 'allowed',
        succeeded() {
          const known = byAddress.get(key) ?? []
          const index = known.indexOf(at)
          if (index >= 0) byAddress.set(key, known.toSpliced(index, 1))
        },
      }
    },
  }
}
