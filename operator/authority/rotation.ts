/**
 * The steps of replacing one authority by another: pure, and decided from the state at every check.
 *
 * 1. The new one is trusted beside the old one, which still signs: every server loads both, and clients have time to.
 * 2. The new one signs: servers' certificates are reissued. A client that trusts both notices nothing.
 * 3. The old one is no longer trusted. The operator keeps its key until every server has loaded that, so that it can
 *    still connect to a server that missed a step and reload it.
 * 4. It is forgotten.
 *
 * No step is taken before every server has completed the previous one, so each server always trusts the certificates of
 * the operator and of the other servers. Repeated changes of the desired authority are queued: if the state has no
 * space for another one, none is announced before earlier ones are removed.
 */
import type { Authority } from '../pki/index.ts'
import { type AuthorityState, type Member, mostAuthorities, signingOf } from './state.ts'

export type Waits = {
  /** How long the new authority is announced before it signs: time for clients to load it. */
  announceMs: number
  /** The minimum time of any other step: until mounted and cached files, and writes in progress, are the new ones. */
  settleMs: number
}

type Decision =
  | { do: 'rest' }
  | { do: 'change'; to: AuthorityState; step: string }
  | { do: 'wait'; until: number; step: string }
  /** For every server to have loaded the current certificates. */
  | { do: 'await-servers'; step: string }

const steps = {
  announce: 'the new authority is trusted beside the old one, which still signs',
  sign: 'the new authority signs; the old one is still trusted',
  retire: 'the old authority is no longer trusted; the operator keeps it for servers that have not loaded this step',
  forget: 'there is one authority',
} as const

/** The facts of a check. `isLoaded`: whether every server has loaded the present state. */
type Check = { isLoaded: () => boolean; now: number }

export function nextStep(state: AuthorityState, desired: Authority, check: Check, waits: Waits): Decision {
  const { authorities } = state
  const { isLoaded, now } = check
  const { announceMs, settleMs } = waits
  const signing = signingOf(state)
  const wanted = authorities.find(({ cert }) => cert === desired.cert)
  if (wanted === undefined && authorities.length >= mostAuthorities) return nextStep(state, signing, check, waits)
  const others = authorities.filter(({ cert }) => cert !== desired.cert)
  const changed = (to: Member[], step: string): Decision => ({
    do: 'change',
    to: { authorities: to, changedAt: new Date(now).toISOString() },
    step,
  })
  const once = (waitMs: number, step: string, to: () => Decision): Decision => {
    const changedAt = Date.parse(state.changedAt)
    // If the clock has been set back since, waiting for the recorded time might take years.
    if (changedAt > now + settleMs) return changed(authorities, step)
    const until = changedAt + waitMs
    if (now < until) return { do: 'wait', until, step }
    return isLoaded() ? to() : { do: 'await-servers', step }
  }

  const { cert, key } = desired
  if (wanted === undefined || wanted.use === 'retired')
    return changed([...others, { cert, key, use: 'trusted' }], steps.announce)
  if (signing.cert !== cert)
    return once(Math.max(announceMs, settleMs), steps.announce, () =>
      changed([{ cert, key, use: 'signs' }, ...others.map(other => ({ ...other, use: demoted(other) }))], steps.sign),
    )
  if (others.some(({ use }) => use !== 'retired'))
    return once(settleMs, steps.sign, () =>
      changed([wanted, ...others.map(other => ({ ...other, use: 'retired' as const }))], steps.retire),
    )
  if (others.length > 0) return once(settleMs, steps.retire, () => changed([wanted], steps.forget))
  return { do: 'rest' }
}

const demoted = ({ use }: Member): Member['use'] => (use === 'signs' ? 'trusted' : use)

export const atRest = steps.forget
