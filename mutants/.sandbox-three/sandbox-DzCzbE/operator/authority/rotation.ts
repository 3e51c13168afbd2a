/**
 * How one authority takes the place of another, a step at a time: pure, and decided anew from the state at every look.
 *
 * 1. The new one is trusted beside the old one, which still signs: every server loads both, and clients have time to.
 * 2. The new one signs: servers' certificates are issued anew. Whoever trusts both sees no difference.
 * 3. The old one is trusted no more. The operator keeps its key until every server has loaded that, so that one that
 *    missed something can still be reached and told.
 * 4. It is forgotten.
 *
 * No step is taken before every server has come to the one before, so at any time each trusts whatever the operator and
 * the servers' own certificates may be of. Who changes their mind again and again is kept waiting: of more authorities
 * than the state holds none is announced before the others have been let go.
 */
// @ts-nocheck

import type { Authority } from '../pki/index.ts'
import { type AuthorityState, type Member, mostAuthorities, signingOf } from './state.ts'

export type Waits = {
  /** How long the new authority is announced before it signs: clients' time to learn of it. */
  announceMs: number
  /** How long any other step takes at least: until what was mounted, cached or under way is the new. */
  settleMs: number
}

type Decision =
  | { do: 'rest' }
  | { do: 'change'; to: AuthorityState; step: string }
  | { do: 'wait'; until: number; step: string }
  /** For every server to have loaded what is in force. */
  | { do: 'await-servers'; step: string }

const steps = {
  announce: 'the new authority is trusted beside the old one, which still signs',
  sign: 'the new authority signs; the old one is still trusted',
  retire: 'the old authority is trusted no more; the operator still has it for whoever has not heard',
  forget: 'one authority is in force',
} as const

/** What is known at a look. `isLoaded`: whether every server has come to what is in force. */
type Look = { isLoaded: () => boolean; now: number }

export function nextStep(state: AuthorityState, desired: Authority, look: Look, waits: Waits): Decision {
  const { authorities } = state
  const { isLoaded, now } = look
  const { announceMs, settleMs } = waits
  const signing = signingOf(state)
  const wanted = authorities.find(({ cert }) => cert === desired.cert)
  if (wanted === undefined && authorities.length >= mostAuthorities) return nextStep(state, signing, look, waits)
  const others = authorities.filter(({ cert }) => cert !== desired.cert)
  const changed = (to: Member[], step: string): Decision => ({
    do: 'change',
    to: { authorities: to, changedAt: new Date(now).toISOString() },
    step,
  })
  const once = (waitMs: number, step: string, to: () => Decision): Decision => {
    const changedAt = Date.parse(state.changedAt)
    // By a clock that has been set back since, this might take years.
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
