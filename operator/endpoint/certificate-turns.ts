/**
 * Whose turn it is to have its certificate issued anew. Where an authority is replaced that is due for every database at
 * once, and with each go a key pair, a write, and looks at its Postgres until that shows it: so only some are at it at a
 * time, the others in the order in which they came. A turn ends when the certificate is in force; or after a while, so that
 * those whose Postgres does not answer hold nobody up.
 *
 * Nothing is lost with this memory: whoever still needs a certificate asks again.
 */
import type { PodFacts } from '../member/pod/pod.ts'
import type { ObservedEndpoint } from './observed.ts'

type Turned = Pick<ObservedEndpoint, 'certificate' | 'postgres'> & {
  pod: PodFacts | undefined
  keys: { isChanging: boolean }
}

type Turns = {
  /** Whether it has its turn; who has not is told by `onTurn` when it has. */
  ask(key: string): boolean
  /** It needs none, or no more. */
  leave(key: string): void
  stop(): void
}

/** What is mounted into a pod takes up to two minutes to change; longer than that nobody is waited for. */
export const turnMs = 180_000

export function createTurns(options: { atOnce: number; onTurn: (key: string) => void }): Turns {
  const { atOnce, onTurn } = options
  /** Who has a turn, and what ends it. */
  const having = new Map<string, NodeJS.Timeout>()
  const waiting = new Set<string>()
  let isStopped = false

  /** `asking`: who hears of it by the answer. */
  const giveOut = (asking?: string) => {
    for (const key of waiting) {
      if (having.size >= atOnce) return
      waiting.delete(key)
      const end = setTimeout(() => leave(key), turnMs)
      end.unref()
      having.set(key, end)
      if (key !== asking) onTurn(key)
    }
  }

  const leave = (key: string) => {
    waiting.delete(key)
    clearTimeout(having.get(key))
    if (having.delete(key)) giveOut()
  }

  return {
    ask: key => {
      if (isStopped) return false
      if (!having.has(key)) waiting.add(key)
      giveOut(key)
      return having.has(key)
    },
    leave,
    stop: () => {
      isStopped = true
      for (const end of having.values()) clearTimeout(end)
      having.clear()
      waiting.clear()
    },
  }
}

/** What was observed, with whether it is the database's turn. */
export function inTurn<O extends Turned>(turns: Turns, key: string, observed: O): O {
  const { certificate } = observed
  if (certificate.state === 'due') {
    if (turns.ask(key)) return observed
    return { ...observed, certificate: { ...certificate, isQueued: true } }
  }
  if (certificate.state === 'absent' || isInForce(observed)) turns.leave(key)
  return observed
}

/** Whether the certificate is what Postgres shows; while an authority is replaced, whether that is on record. */
function isInForce({ certificate, pod, postgres, keys }: Turned): boolean {
  if (certificate.state !== 'good') return false
  if (pod?.address === undefined || certificate.isLoaded) return true
  const answer = postgres?.run === pod.run ? postgres.answer : undefined
  return !keys.isChanging && answer?.state === 'answered' && answer.certificate === certificate.fingerprint
}
