/**
 * Whether a stored verifier matches a password, at a cost that no tenant controls. Each pair is computed once, and the
 * result is cached. A verifier with more rounds than the maximum cannot be the operator's, and is not computed.
 * Verifiers with more rounds than the operator's share a budget of rounds per second.
 *
 * The cache contains neither password nor verifier. Its key is a digest of both with a key of this process.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { fitsVerifier, mintedIterations, verifierIterations } from './scram.ts'

/** `deferred`: the pair was not computed yet, because too many others were before it. */
type Comparison = 'fits' | 'differs' | 'deferred'

export type PasswordChecks = {
  /** @throws RangeError unless the password is printable ASCII; the signal's reason */
  check(password: string, verifier: string, signal: AbortSignal): Promise<Comparison>
}

/** Three roles of 10,000 databases, and some more for changes. */
const mostComparisons = 50_000
/** About a fifth of a core; further requests wait in the queue. */
const foreignRoundsPerSecond = 400_000
/** A pair that would wait longer than this is deferred to another probe. */
const timeoutMs = 3_000

type Options = {
  now: () => number
  fits?: typeof fitsVerifier
  mostCached?: number
}

export function createPasswordChecks({
  now,
  fits = fitsVerifier,
  mostCached = mostComparisons,
}: Options): PasswordChecks {
  const key = randomBytes(32)
  const cached = new LRUCache<string, boolean>({ max: mostCached })
  /** Pairs that are being computed, which two probes may request at once. */
  const underWay = new Map<string, Promise<boolean>>()
  /** The time from which the budget for untrusted verifiers is available again. */
  let paidAt = Number.NEGATIVE_INFINITY

  const nameOf = (password: string, verifier: string): string =>
    createHmac('sha256', key).update(`${password}\0${verifier}`).digest('base64')

  /**
   * How long a computation with these rounds must wait. Undefined if that is too long. The operator's own verifiers
   * never wait.
   */
  const queueDelayOf = (rounds: number): number | undefined => {
    if (rounds <= mintedIterations) return 0
    const waitMs = Math.max(0, paidAt - now())
    if (waitMs > timeoutMs) return undefined
    paidAt = Math.max(paidAt, now()) + (rounds / foreignRoundsPerSecond) * 1000
    return waitMs
  }

  const compute = async (name: string, password: string, verifier: string): Promise<boolean> => {
    const computed = fits(password, verifier)
    underWay.set(name, computed)
    try {
      const comparison = await computed
      cached.set(name, comparison)
      return comparison
    } finally {
      underWay.delete(name)
    }
  }

  return {
    check: async (password, verifier, signal) => {
      const name = nameOf(password, verifier)
      const known = cached.get(name)
      if (known !== undefined) return known ? 'fits' : 'differs'
      const running = underWay.get(name)
      if (running !== undefined) return (await running) ? 'fits' : 'differs'
      const rounds = verifierIterations(verifier)
      // The verifier has another method, or more rounds than the maximum. So it is not the operator's, whatever the
      // password.
      if (rounds === undefined) return 'differs'
      const waitMs = queueDelayOf(rounds)
      if (waitMs === undefined) return 'deferred'
      if (waitMs > 0) await pause(waitMs, signal)
      return (await compute(name, password, verifier)) ? 'fits' : 'differs'
    },
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const abort = () => reject(signal.reason)
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', abort, { once: true })
  return promise.finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  })
}
