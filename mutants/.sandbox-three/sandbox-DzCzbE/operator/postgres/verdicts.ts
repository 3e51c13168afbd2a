/**
 * Whether a stored verifier is a password's, at a cost that no tenant decides. A verdict is kept by what it was about, so that
 * each pair is computed once; a verifier that asks for more rounds than anybody needs is nobody's of ours and is not
 * computed; and what asks for more rounds than ours do shares a budget of rounds per second.
 *
 * What is kept names neither password nor verifier: a digest of both under a key of this process.
 */
// @ts-nocheck

import { createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { fitsVerifier, mintedIterations, verifierIterations } from './scram.ts'

/** `deferred`: it was not that pair's turn yet. */
type Verdict = 'fits' | 'differs' | 'deferred'

export type Verdicts = {
  /** @throws RangeError unless the password is printable ASCII; the signal's reason */
  judge(password: string, verifier: string, signal: AbortSignal): Promise<Verdict>
}

/** Three roles of 10,000 databases, and room for changes. */
const mostVerdicts = 50_000
/** A fifth of a core, about; what is asked for beyond waits its turn. */
const foreignRoundsPerSecond = 400_000
/** What waits longer than this for its turn is left for another look. */
const patienceMs = 3_000

type Options = {
  now: () => number
  fits?: typeof fitsVerifier
  mostKept?: number
}

export function createVerdicts({ now, fits = fitsVerifier, mostKept = mostVerdicts }: Options): Verdicts {
  const key = randomBytes(32)
  const kept = new LRUCache<string, boolean>({ max: mostKept })
  /** Pairs that are being computed, which two looks may ask for at once. */
  const underWay = new Map<string, Promise<boolean>>()
  /** When the budget for others' rounds has been paid back. */
  let paidAt = Number.NEGATIVE_INFINITY

  const nameOf = (password: string, verifier: string): string =>
    createHmac('sha256', key).update(`${password}\0${verifier}`).digest('base64')

  /** How long these rounds have to wait; undefined for too long. Those of our own making never wait. */
  const turnOf = (rounds: number): number | undefined => {
    if (rounds <= mintedIterations) return 0
    const waitMs = Math.max(0, paidAt - now())
    if (waitMs > patienceMs) return undefined
    paidAt = Math.max(paidAt, now()) + (rounds / foreignRoundsPerSecond) * 1000
    return waitMs
  }

  const compute = async (name: string, password: string, verifier: string): Promise<boolean> => {
    const computed = fits(password, verifier)
    underWay.set(name, computed)
    try {
      const verdict = await computed
      kept.set(name, verdict)
      return verdict
    } finally {
      underWay.delete(name)
    }
  }

  return {
    judge: async (password, verifier, signal) => {
      const name = nameOf(password, verifier)
      const known = kept.get(name)
      if (known !== undefined) return known ? 'fits' : 'differs'
      const running = underWay.get(name)
      if (running !== undefined) return (await running) ? 'fits' : 'differs'
      const rounds = verifierIterations(verifier)
      // Of no method, or of more rounds than are ever computed: not ours, whatever the password.
      if (rounds === undefined) return 'differs'
      const waitMs = turnOf(rounds)
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
