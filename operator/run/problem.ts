/**
 * The report of a backup or restore while its passes fail. It reports the reason at once. Pure. A run that is in
 * progress or being deleted reports the reason in Progressing. A run that has ended keeps its outcome there. It reports
 * a refused cleanup in CleanedUp, a condition that exists only while the cleanup fails.
 */
import { isClusterError, isRefused } from '../../cluster/index.ts'
import type { Condition, ObjectMeta } from '../../crds/index.ts'
import { ArchiveUnreachableError } from '../objects/archive-unreachable.ts'
import { conditionOf, conditionsAfter, conditionTypes, type Finding, no, yes } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'

type RunProblem = {
  reason: 'QuotaExceeded' | 'Refused' | 'NameTaken' | 'ArchiveUnreachable' | 'Retrying'
  message: string
}
const reasons: ReadonlySet<string> = new Set<RunProblem['reason']>([
  ...(['QuotaExceeded', 'Refused', 'NameTaken', 'ArchiveUnreachable', 'Retrying'] as const),
])

/** Whether a condition reports failing passes. */
export const isProblem = (condition: Condition | undefined): condition is Condition =>
  condition !== undefined && reasons.has(condition.reason)

/** The texts for a kind. */
export type ProblemTexts = {
  /** The finding for Ready while the run is in progress. */
  notYet: Finding
  /** Explains an exhausted quota. */
  quota: (message: string) => string
}

function problemOf(error: unknown, { quota }: ProblemTexts): RunProblem {
  if (error instanceof NameTakenError) return { reason: 'NameTaken', message: error.message }
  if (error instanceof ArchiveUnreachableError) return { reason: 'ArchiveUnreachable', message: error.message }
  if (isClusterError(error, 'Forbidden') && error.message.includes('exceeded quota'))
    return { reason: 'QuotaExceeded', message: quota(error.message) }
  if (isRefused(error)) return { reason: 'Refused', message: error.message }
  if (isClusterError(error)) return { reason: 'Retrying', message: `the last attempt failed: ${error.message}` }
  return { reason: 'Retrying', message: "the last attempt failed: see the operator's log" }
}

const cleanedUp = 'CleanedUp'
const types = conditionTypes<'Ready' | 'Progressing' | typeof cleanedUp>(['Ready', 'Progressing', cleanedUp], [])

type Status = { conditions?: Condition[] | undefined; phase?: string | undefined; finishedAt?: string | undefined }

const hasEnded = (status: Status | undefined): boolean =>
  status?.finishedAt !== undefined || status?.phase === 'completed' || status?.phase === 'failed'

/** The status of a run whose pass failed. Undefined if there is nothing to report. Does not set a missing phase. */
export function withProblem<S extends Status>(
  { metadata, status }: { metadata: ObjectMeta; status: S },
  error: unknown,
  texts: ProblemTexts,
  now: number,
): S | undefined {
  // The decision used an old state. The next pass follows at once.
  if (isClusterError(error, 'Conflict')) return undefined
  const { reason, message } = problemOf(error, texts)
  const { generation, deletionTimestamp } = metadata
  const isDeleting = deletionTimestamp !== undefined
  const isOpen = !isDeleting && !hasEnded(status)
  // No user waits for the cleanup of an ended run. So only an error that needs a user's action is reported.
  if (!isOpen && reason === 'Retrying') return undefined
  const progressing = { Progressing: yes(reason, message) }
  const ofEnded = isDeleting ? progressing : { [cleanedUp]: no(reason, message) }
  const findings = isOpen ? { Ready: texts.notYet, ...progressing } : ofEnded
  const before = status.conditions ?? []
  const after = conditionsAfter(types, before, findings, generation, now)
  const others = before.filter(({ type }) => !after.some(other => other.type === type))
  return { ...status, conditions: [...after, ...others] }
}

/** The status after a pass that did not fail. */
export function withoutProblem<S extends Status>(status: S): S {
  const conditions = status.conditions?.filter(({ type }) => type !== cleanedUp)
  return conditions?.length === status.conditions?.length ? status : { ...status, conditions }
}

/** The condition that reports a problem with a new reason, if any. */
export const newProblem = (before: Status, after: Status): Condition | undefined =>
  after.conditions?.find(found => isProblem(found) && found.reason !== conditionOf(before, found.type)?.reason)
