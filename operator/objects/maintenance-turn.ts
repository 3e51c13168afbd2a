/**
 * A slot (`status.turns` of a Region) permits one database or branch to start its restart in the region's maintenance
 * window. The region's controller grants the slot in the Region's status. The owner records in its own status that it
 * uses the slot. Pure.
 */
import { type Branch, branchPhase, type ManagedDatabase, type Turn, visiblePhase } from '../../crds/index.ts'
import { conditionOf, namespaceNotServed } from './conditions.ts'

/** An object that can be restarted in a window. */
export type Candidate = ManagedDatabase | Branch

/** How long an owner may start a restart with a slot. */
const validMs = 2 * 60_000
/**
 * How much longer the region counts a slot than the owner may use it. An owner's write of its status takes less time.
 */
const marginMs = 60_000

/**
 * The operator no longer manages the namespace: it neither restarts the object nor observes the end of a restart. The
 * object blocks no other object.
 */
export const isNotServed = ({ status }: Candidate): boolean =>
  conditionOf(status, 'Ready')?.reason === namespaceNotServed

export const isRestarting = ({ status }: Candidate): boolean =>
  (status?.maintenance !== undefined && status.maintenance.endedAt === undefined) ||
  status?.operation?.name === 'restart-managed'

export const isFailed = ({ status }: Candidate): boolean => status?.maintenance?.outcome === 'failed'

/** The object serves, and has no operation. */
const isAvailable = (candidate: Candidate): boolean =>
  candidate.status?.operation === undefined &&
  !isNotServed(candidate) &&
  (candidate.kind === 'Branch' ? branchPhase(candidate) : visiblePhase(candidate)) === 'available'

/** The object has a pending restart, and was not restarted in this window. */
export const isDue = (candidate: Candidate, window: string): boolean =>
  (candidate.status?.pendingRestart ?? []).length > 0 &&
  isAvailable(candidate) &&
  candidate.status?.maintenance?.restart !== window

/** The clock may have been set back, so a slot from the future counts like one from the past. */
const distance = ({ grantedAt }: Turn, now: number): number => Math.abs(now - Date.parse(grantedAt))

/** Whether no owner can start a restart with the slot any longer. */
export const isExpired = (turn: Turn, now: number): boolean => !(distance(turn, now) < validMs + marginMs)

export const expiresAt = ({ grantedAt }: Turn): number => Date.parse(grantedAt) + validMs + marginMs

/**
 * The slot with which the owner may start its restart now. `turns`: the region's slots. `others`: the other objects in
 * the region. Counts running restarts again: an operator of an earlier version ignores slots, and may have started
 * another restart in the meantime.
 */
export function takenTurn(
  candidate: Candidate,
  turns: readonly Turn[],
  others: readonly Candidate[],
  { maxConcurrent, now, isClockTrusted }: { maxConcurrent: number; now: number; isClockTrusted: boolean },
): Turn | undefined {
  const turn = turns.find(({ uid }) => uid === candidate.metadata.uid)
  if (turn === undefined || !isClockTrusted || !(distance(turn, now) < validMs)) return undefined
  const served = others.filter(other => !isNotServed(other))
  const running = served.filter(isRestarting).map(({ metadata }) => metadata.uid)
  const counted = new Set<string | undefined>([...turns.map(({ uid }) => uid), ...running])
  const isStopped = [candidate, ...served].some(isFailed) || counted.size > maxConcurrent
  return !isStopped && !isRestarting(candidate) && isDue(candidate, turn.window) ? turn : undefined
}
