/**
 * Decides which databases and branches may restart next in a region's maintenance window. Never more at the same time
 * than the Region allows, each once per window, and none while a restarted one does not serve. Pure. It depends only on
 * objects, so the next leader decides the same.
 */
import { branchPhase, type Turn } from '../../crds/index.ts'
import { type Candidate, isDue, isExpired, isFailed, isNotServed, isRestarting } from '../objects/maintenance-turn.ts'

export type Admission = {
  /** The objects that get a slot now, in order. */
  next: Candidate[]
  /** How many objects wait for a slot. */
  waiting: number
  /** How many objects are being restarted or have a slot. */
  running: number
  /** Objects that were restarted in a window and do not serve. No other object is restarted until they do. */
  failed: Candidate[]
}

/** Sorts by waiting time, the longest first. */
const order = ({ status, metadata, kind }: Candidate): string => {
  const since = status?.pendingRestart?.map(entry => entry.since).sort()[0] ?? ''
  return `${since} ${metadata.namespace}/${metadata.name} ${kind}`
}

/** A branch that is being deleted needs no restart, and no user waits for it. */
const isLeaving = (candidate: Candidate): boolean =>
  candidate.kind === 'Branch' && ['deleting', 'deleted'].includes(branchPhase(candidate))

/** Whether the object affects the decision of `admit`. */
export const isOfInterest = (candidate: Candidate): boolean =>
  !isLeaving(candidate) &&
  !isNotServed(candidate) &&
  ((candidate.status?.pendingRestart ?? []).length > 0 || isRestarting(candidate) || isFailed(candidate))

/**
 * The slots that still count. `find`: returns the object with this kind and name. If an object is no longer due, its
 * slot still counts until it expires: an earlier pass of its owner may still use the slot.
 */
export const countedTurns = (
  turns: readonly Turn[],
  find: (turn: Turn) => Candidate | undefined,
  now: number,
): Turn[] =>
  turns.filter(turn => {
    const candidate = find(turn)
    if (candidate === undefined || candidate.metadata.uid !== turn.uid) return false
    const { maintenance } = candidate.status ?? {}
    if (maintenance?.restart !== turn.window) return !isExpired(turn, now)
    return maintenance.endedAt === undefined && !isLeaving(candidate) && !isNotServed(candidate)
  })

/**
 * `candidates`: the region's objects of interest. `turns`: the slots that still count. `windowId`: the window's id.
 * `over`: slots that have just stopped counting. An owner that did not use such a slot is last. So an owner whose
 * passes fail does not block the others. A database whose deletion is blocked counts like any other, because it still
 * serves. When the deletion of its objects starts, its restart has ended.
 */
export function admit(
  candidates: readonly Candidate[],
  turns: readonly Turn[],
  windowId: string,
  maxConcurrent: number,
  over: readonly Turn[] = [],
): Admission {
  const failed = candidates.filter(isFailed)
  const holders = new Set<string | undefined>(turns.map(({ uid }) => uid))
  const hasTurn = ({ metadata }: Candidate) => holders.has(metadata.uid)
  const running = turns.length + candidates.filter(one => isRestarting(one) && !hasTurn(one)).length
  const due = candidates
    .filter(one => !isRestarting(one) && !isFailed(one) && !hasTurn(one) && isDue(one, windowId))
    .toSorted((left, right) => (order(left) < order(right) ? -1 : 1))
  const isLast = ({ metadata }: Candidate) => over.some(({ uid }) => uid === metadata.uid)
  const ordered = [...due.filter(one => !isLast(one)), ...due.filter(isLast)]
  const free = failed.length > 0 ? 0 : Math.max(0, maxConcurrent - running)
  return { next: ordered.slice(0, free), waiting: due.length, running, failed }
}
