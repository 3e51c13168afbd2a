/**
 * The steps of replacing one authority by another. Pure. Each check decides from the state.
 *
 * 1. The new authority is trusted beside the old one, which still signs. Every server loads both, and clients have time
 * to load both.
 *
 * 2. The new authority signs, and the servers' certificates are reissued. A client that trusts both notices nothing.
 *
 * 3. The old authority is no longer trusted. The operator keeps its key until every server has loaded this step. So it
 * can still connect to a server that missed the step, and reload it.
 *
 * 4. The old authority is deleted.
 *
 * Each step waits until every server has completed the previous one. So each server always trusts the certificates of
 * the operator and of the other servers. Repeated changes of the desired authority are queued. If the state has no
 * space for another authority, none is announced until earlier ones are removed.
 */
import type { Authority } from '../pki/index.ts'
import { type AuthorityState, type Member, mostAuthorities, signingOf } from './state.ts'

export type Waits = {
  /** How long the new authority is announced before it signs. Clients load it in this time. */
  announceMs: number
  /** The minimum time of any other step. It covers mounted and cached files, and writes in progress. */
  settleMs: number
}

type Decision =
  | { do: 'rest' }
  | { do: 'change'; to: AuthorityState; step: string }
  | { do: 'wait'; until: number; step: string }
  /** Waits until every server has loaded the current certificates. */
  | { do: 'await-servers'; step: string }

const steps = {
  announce: 'the new authority is trusted beside the old one, which still signs',
  sign: 'the new authority signs; the old one is still trusted',
  retire: 'the old authority is no longer trusted; the operator keeps it for servers that have not loaded this step',
  forget: 'there is one authority',
} as const

/** The facts of a check. `isLoaded`: whether every server has loaded the current state. */
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
    // If the clock was set back since then, the recorded time might be years ahead.
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
