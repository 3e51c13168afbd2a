/**
 * Limits how many certificates are reissued at the same time. When an authority is replaced, every database needs a new
 * certificate. Each one costs a key pair, a write, and probes of its Postgres until Postgres presents the certificate.
 * The other owners wait in order. An owner's slot is released when its certificate is applied, or after a timeout: a
 * Postgres that does not answer must not delay the others.
 *
 * A restart of the operator loses nothing: an owner that still needs a certificate requests a slot again.
 */
import type { PodFacts } from '../member/pod/pod.ts'
import type { ObservedEndpoint } from './observed.ts'

type Queued = Pick<ObservedEndpoint, 'certificate' | 'postgres'> & {
  pod: PodFacts | undefined
  keys: { isChanging: boolean }
}

type CertificateQueue = {
  /** Whether the owner has a slot. If not, the queue calls `onSlot` when it has one. */
  request(key: string): boolean
  /** Reports that the owner needs no slot. */
  release(key: string): void
  stop(): void
}

/** The timeout of a slot. The kubelet takes up to two minutes to update a mounted Secret. */
export const slotMs = 180_000

export function createCertificateQueue(options: { atOnce: number; onSlot: (key: string) => void }): CertificateQueue {
  const { atOnce, onSlot } = options
  /** The owners that have a slot, with its timeout. */
  const holders = new Map<string, NodeJS.Timeout>()
  const waiting = new Set<string>()
  let isStopped = false

  /** `requesting`: the owner that requests now. It gets the result as the return value, not through `onSlot`. */
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

/** Whether Postgres presents the certificate. While an authority is replaced: whether the Secret records that. */
function isApplied({ certificate, pod, postgres, keys }: Queued): boolean {
  if (certificate.state !== 'good') return false
  if (pod?.address === undefined || certificate.isLoaded) return true
  const answer = postgres?.run === pod.run ? postgres.answer : undefined
  return !keys.isChanging && answer?.state === 'answered' && answer.certificate === certificate.fingerprint
}
