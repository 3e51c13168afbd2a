/**
 * What a backup or restore reports while its passes fail: the reason, at once, so that nobody waits without knowing it. Pure.
 * One that is under way or being deleted reports it in Progressing. One that has ended keeps the outcome there: what the cluster
 * refuses of its cleanup is in CleanedUp, which is there only as long as that fails.
 */
import { isClusterError, isRefused } from '../../cluster/index.ts'
import type { Condition, ObjectMeta } from '../../crds/index.ts'
import { conditionOf, conditionsAfter, conditionTypes, type Finding, no, yes } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'

type Trouble = { reason: 'QuotaExceeded' | 'Refused' | 'NameTaken' | 'Retrying'; message: string }
const reasons: ReadonlySet<string> = new Set<Trouble['reason']>(['QuotaExceeded', 'Refused', 'NameTaken', 'Retrying'])

/** Whether a condition reports that passes fail. */
export const isTrouble = (condition: Condition | undefined): condition is Condition =>
  condition !== undefined && reasons.has(condition.reason)

/** What a kind says in its own words. */
export type TroubleWords = {
  /** Of Ready, while it is under way. */
  notYet: Finding
  /** Explains a quota that has no space. */
  quota: (message: string) => string
}

function troubleOf(error: unknown, { quota }: TroubleWords): Trouble {
  if (error instanceof NameTakenError) return { reason: 'NameTaken', message: error.message }
  if (isClusterError(error, 'Forbidden') && error.message.includes('exceeded quota'))
    return { reason: 'QuotaExceeded', message: quota(error.message) }
  if (isRefused(error)) return { reason: 'Refused', message: error.message }
  if (isClusterError(error)) return { reason: 'Retrying', message: `the last try failed: ${error.message}` }
  return { reason: 'Retrying', message: 'the last try failed: see the log of the operator' }
}

const cleanedUp = 'CleanedUp'
const types = conditionTypes<'Ready' | 'Progressing' | typeof cleanedUp>(['Ready', 'Progressing', cleanedUp], [])

type Status = { conditions?: Condition[] | undefined; phase?: string | undefined; finishedAt?: string | undefined }

const hasEnded = (status: Status | undefined): boolean =>
  status?.finishedAt !== undefined || status?.phase === 'completed' || status?.phase === 'failed'

/** The status of a run whose pass failed; undefined where nothing is to be reported. Leaves a phase that is not there yet alone. */
export function troubled<S extends Status>(
  { metadata, status }: { metadata: ObjectMeta; status: S },
  error: unknown,
  words: TroubleWords,
  now: number,
): S | undefined {
  // Decided on an old state: the next pass follows at once.
  if (isClusterError(error, 'Conflict')) return undefined
  const { reason, message } = troubleOf(error, words)
  const { generation, deletionTimestamp } = metadata
  const isDeleting = deletionTimestamp !== undefined
  const isOpen = !isDeleting && !hasEnded(status)
  // Nobody waits for the cleanup of what has ended: only what does not pass by itself is reported.
  if (!isOpen && reason === 'Retrying') return undefined
  const progressing = { Progressing: yes(reason, message) }
  const ofEnded = isDeleting ? progressing : { [cleanedUp]: no(reason, message) }
  const findings = isOpen ? { Ready: words.notYet, ...progressing } : ofEnded
  const before = status.conditions ?? []
  const after = conditionsAfter(types, before, findings, generation, now)
  const others = before.filter(({ type }) => !after.some(other => other.type === type))
  return { ...status, conditions: [...after, ...others] }
}

/** The status after a pass that did not fail. */
export function untroubled<S extends Status>(status: S): S {
  const conditions = status.conditions?.filter(({ type }) => type !== cleanedUp)
  return conditions?.length === status.conditions?.length ? status : { ...status, conditions }
}

/** The condition that reports trouble with another reason than before. */
export const newTrouble = (before: Status, after: Status): Condition | undefined =>
  after.conditions?.find(found => isTrouble(found) && found.reason !== conditionOf(before, found.type)?.reason)
