/**
 * Which databases and branches may restart next in a region's window: never more at once than the region says, each once a window,
 * and none while one that was restarted does not serve. Pure, and decided by objects alone, so that another operator that takes over
 * decides the same.
 */
import { branchPhase, type Turn } from '../../crds/index.ts'
import { type Candidate, isDue, isExpired, isFailed, isNotServed, isRestarting } from '../objects/maintenance-turn.ts'

export type Admission = {
  /** To be given a turn now, in order. */
  next: Candidate[]
  /** Wait for their turn. */
  waiting: number
  /** Are being restarted, or have a turn. */
  running: number
  /** Were restarted in a window and do not serve: nothing more is restarted until they do. */
  failed: Candidate[]
}

/** Who has waited longest comes first. */
const order = ({ status, metadata, kind }: Candidate): string => {
  const since = status?.pendingRestart?.map(entry => entry.since).sort()[0] ?? ''
  return `${since} ${metadata.namespace}/${metadata.name} ${kind}`
}

/** A branch that goes has nothing to gain, and nobody waits for it. */
const isLeaving = (candidate: Candidate): boolean =>
  candidate.kind === 'Branch' && ['deleting', 'deleted'].includes(branchPhase(candidate))

/** Whether it plays a part in what `admit` decides. */
export const isOfInterest = (candidate: Candidate): boolean =>
  !isLeaving(candidate) &&
  !isNotServed(candidate) &&
  ((candidate.status?.pendingRestart ?? []).length > 0 || isRestarting(candidate) || isFailed(candidate))

/**
 * The turns that still count. `find`: the object of this kind and name. The turn of an object that is not due any more counts until it
 * expires: a pass of its owner that began before may still take it.
 */
export const heldTurns = (turns: readonly Turn[], find: (turn: Turn) => Candidate | undefined, now: number): Turn[] =>
  turns.filter(turn => {
    const candidate = find(turn)
    if (candidate === undefined || candidate.metadata.uid !== turn.uid) return false
    const { maintenance } = candidate.status ?? {}
    if (maintenance?.restart !== turn.window) return !isExpired(turn, now)
    return maintenance.endedAt === undefined && !isLeaving(candidate) && !isNotServed(candidate)
  })

/**
 * `candidates`: those of the region that are of interest; `turns`: those that still count; `mark`: the window's; `over`: turns that have
 * just stopped counting. An owner that did not take such a turn is last, so that one whose passes fail does not block the others. A
 * database whose deletion is blocked counts as any: it is to go on serving. With a teardown its restart has ended.
 */
export function admit(
  candidates: readonly Candidate[],
  turns: readonly Turn[],
  mark: string,
  maxConcurrent: number,
  over: readonly Turn[] = [],
): Admission {
  const failed = candidates.filter(isFailed)
  const holders = new Set<string | undefined>(turns.map(({ uid }) => uid))
  const hasTurn = ({ metadata }: Candidate) => holders.has(metadata.uid)
  const running = turns.length + candidates.filter(one => isRestarting(one) && !hasTurn(one)).length
  const due = candidates
    .filter(one => !isRestarting(one) && !isFailed(one) && !hasTurn(one) && isDue(one, mark))
    .toSorted((left, right) => (order(left) < order(right) ? -1 : 1))
  const isLast = ({ metadata }: Candidate) => over.some(({ uid }) => uid === metadata.uid)
  const ordered = [...due.filter(one => !isLast(one)), ...due.filter(isLast)]
  const room = failed.length > 0 ? 0 : Math.max(0, maxConcurrent - running)
  return { next: ordered.slice(0, room), waiting: due.length, running, failed }
}
