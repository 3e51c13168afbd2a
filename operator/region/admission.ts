/**
 * Which databases and branches are restarted next in a region's window: never more at once than the region says, each once a
 * window, and none while one that was restarted does not serve. Pure, and decided by what they themselves say, so that
 * another operator that takes over decides the same.
 */
import { type Branch, branchPhase, type ManagedDatabase, visiblePhase } from '../../crds/index.ts'

/** What is restarted in a window. */
export type Candidate = ManagedDatabase | Branch

export type Admission = {
  /** To be restarted now, in order. */
  next: Candidate[]
  /** Wait for their turn. */
  waiting: number
  /** Are being restarted. */
  running: number
  /** Were restarted in a window and do not serve: nothing more is restarted until they do. */
  failed: Candidate[]
}

const isRestarting = ({ status }: Candidate): boolean =>
  (status?.maintenance !== undefined && status.maintenance.endedAt === undefined) ||
  status?.operation?.name === 'restart-managed'

const isFailed = ({ status }: Candidate): boolean => status?.maintenance?.outcome === 'failed'

/** Serves, and is at nothing else. */
const isAvailable = (candidate: Candidate): boolean =>
  candidate.status?.operation === undefined &&
  (candidate.kind === 'Branch' ? branchPhase(candidate) : visiblePhase(candidate)) === 'available'

/** Has something to gain, and was not restarted in this window already. */
const isDue = (candidate: Candidate, mark: string): boolean =>
  (candidate.status?.pendingRestart ?? []).length > 0 &&
  isAvailable(candidate) &&
  candidate.status?.maintenance?.restart !== mark

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
  ((candidate.status?.pendingRestart ?? []).length > 0 || isRestarting(candidate) || isFailed(candidate))

/**
 * `candidates`: those of the region that are of interest; `mark`: the window's. A database whose deletion is blocked counts as any: it is
 * to go on serving. With a teardown its restart has ended.
 */
export function admit(candidates: readonly Candidate[], mark: string, maxConcurrent: number): Admission {
  const failed = candidates.filter(isFailed)
  const running = candidates.filter(isRestarting).length
  const due = candidates
    .filter(candidate => !isRestarting(candidate) && !isFailed(candidate) && isDue(candidate, mark))
    .toSorted((left, right) => (order(left) < order(right) ? -1 : 1))
  const room = failed.length > 0 ? 0 : Math.max(0, maxConcurrent - running)
  return { next: due.slice(0, room), waiting: due.length, running, failed }
}
