/**
 * Limits how many certificates are reissued at a time. When an authority is replaced, every database needs a new
 * certificate, and each costs a key pair, a write, and probes of its Postgres until it presents the certificate: the
 * others wait in order. A slot is released when the certificate is applied, or after a timeout, so that a Postgres that
 * does not answer delays no other.
 *
 * A restart loses nothing: an owner that still needs a certificate requests a slot again.
 */
import type { PodFacts } from '../member/pod/pod.ts'
import type { ObservedEndpoint } from './observed.ts'

type Queued = Pick<ObservedEndpoint, 'certificate' | 'postgres'> & {
  pod: PodFacts | undefined
  keys: { isChanging: boolean }
}

type CertificateQueue = {
  /** Whether the owner has a slot. If not, `onSlot` reports it later. */
  request(key: string): boolean
  /** The owner needs no slot. */
  release(key: string): void
  stop(): void
}

/** Timeout of a slot. A mounted Secret takes up to two minutes to change in a pod. */
export const slotMs = 180_000

export function createCertificateQueue(options: { atOnce: number; onSlot: (key: string) => void }): CertificateQueue {
  const { atOnce, onSlot } = options
  /** The owners that have a slot, and its timeout. */
  const holders = new Map<string, NodeJS.Timeout>()
  const waiting = new Set<string>()
  let isStopped = false

  /** `requesting`: this owner gets the result as the return value, not through `onSlot`. */
  const assign = (requesting?: string) => {
    for (const key of waiting) {
      if (holders.size >= atOnce) return
      waiting.delete(key)
      const end = setTimeout(() => release(key), slotMs)
      end.unref()
      holders.set(key, end)
      if (key !== requesting) onSlot(key)
    }
  }

  const release = (key: string) => {
    waiting.delete(key)
    clearTimeout(holders.get(key))
    if (holders.delete(key)) assign()
  }

  return {
    request: key => {
      if (isStopped) return false
      if (!holders.has(key)) waiting.add(key)
      assign(key)
      return holders.has(key)
    },
    release,
    stop: () => {
      isStopped = true
      for (const end of holders.values()) clearTimeout(end)
      holders.clear()
      waiting.clear()
    },
  }
}

/** Adds to the observed state whether the certificate waits for a slot. */
export function withQueue<O extends Queued>(queue: CertificateQueue, key: string, observed: O): O {
  const { certificate } = observed
  if (certificate.state === 'due') {
    if (queue.request(key)) return observed
    return { ...observed, certificate: { ...certificate, isQueued: true } }
  }
  if (certificate.state === 'absent' || isApplied(observed)) queue.release(key)
  return observed
}

/** Whether Postgres presents the certificate; while an authority is replaced, whether that is recorded. */
function isApplied({ certificate, pod, postgres, keys }: Queued): boolean {
  if (certificate.state !== 'good') return false
  if (pod?.address === undefined || certificate.isLoaded) return true
  const answer = postgres?.run === pod.run ? postgres.answer : undefined
  return !keys.isChanging && answer?.state === 'answered' && answer.certificate === certificate.fingerprint
}
