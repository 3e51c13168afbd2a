/**
 * From what was observed of a branch to what is to be done about it and what is to be said of it: a pure function, the same
 * after a crash at any point. A branch is made in this order: a snapshot of its source, which is put on record; a volume out
 * of it; Postgres, closed, until the data are its own; then its endpoint is opened, and from that moment it bills.
 */
import { isUnmadeBranch, teardownFinalizer } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { recordFromClaim } from '../../member/storage/plan/record.ts'
import { type Finding, no } from '../../objects/conditions.ts'
import { missingKey } from '../../workload/plan/keys.ts'
import { marks } from '../../workload/plan/marks.ts'
import { earliest } from '../../workload/plan/waits.ts'
import { isGoing, type Observed } from '../observed.ts'
import { copying } from './copying.ts'
import { atEnd, clears, entombed, goes } from './ending.ts'
import { nothing, type Plan, type PlanSettings, told } from './plan.ts'
import { running } from './running.ts'

export function plan(observed: Observed, now: number, settings: PlanSettings): Plan {
  const { branch, identity } = observed
  const { metadata, status } = branch
  const isHeld = metadata.finalizers?.includes(teardownFinalizer) === true
  if (status?.phase === 'deleted') return entombed(observed, isHeld, now)
  if (metadata.deletionTimestamp !== undefined && !isHeld) return nothing(observed)
  const isOver = isUnmadeBranch(branch) && !isGoing(branch)
  if (isOver && !isHeld) return atEnd(observed)
  const missing = missingKey(observed)
  if (missing !== undefined) return withoutKeys(observed, missing, now)
  const unmarked = marks(observed, { isGoing: isGoing(branch) || isOver })
  const pressing = [...unmarked.referring, ...unmarked.ofChildren]
  if (pressing.length > 0) return { ...nothing(observed), actions: [...pressing, ...unmarked.others] }
  const owner = identity.state === 'settled' ? identity.owner : undefined
  if (isGoing(branch)) return goes(observed, owner, now)
  if (isOver) return clears(observed, owner, now)
  if (identity.state === 'contested') return contested(observed, identity.why, now)
  if (owner === undefined || !isHeld) {
    const id = identity.state === 'settled' ? identity.owner.id : identity.id
    return { ...nothing(observed), actions: [{ do: 'identify', id }] }
  }
  const expiresAt = branch.spec.expiresAt === undefined ? undefined : Date.parse(branch.spec.expiresAt)
  const isExpired = expiresAt !== undefined && now >= expiresAt
  if (isExpired && observed.clockDoubt === undefined)
    return { ...nothing(observed), actions: [{ do: 'request-deletion', at: preciseTime(now) }] }
  const volume = recordFromClaim(observed)
  if (volume !== undefined)
    return { ...nothing(observed), status: { ...status, incarnation: observed.incarnation, volume } }
  // The volume alone is on record of a branch that was put back without the rest of its status.
  const isCopied = status?.source !== undefined || status?.volume !== undefined
  const made = (isCopied ? running : copying)(observed, owner, now, settings)
  return {
    ...made,
    actions: [...unmarked.others, ...made.actions],
    wakeAt: earliest(made.wakeAt, isExpired ? undefined : expiresAt),
  }
}

/**
 * Nothing is made and nothing changed without a key, since none is ever made again over existing data; but owner references
 * come off, which takes no key.
 */
function withoutKeys(observed: Observed, missing: Finding, now: number): Plan {
  const phase = observed.branch.status?.phase ?? 'creating'
  return {
    ...nothing(observed),
    actions: marks(observed, { isGoing: false }).referring,
    status: told(observed, { KeysAvailable: missing }, { phase }, now),
  }
}

/** Nothing is done, and nothing stops what runs, until somebody has said whose the data are. */
function contested(observed: Observed, why: string, now: number): Plan {
  const finding = no('IdContested', why)
  const phase = observed.branch.status?.phase ?? 'creating'
  return { ...nothing(observed), status: told(observed, { Ready: finding, VolumeReady: finding }, { phase }, now) }
}
