/**
 * Which children the operator writes: those that are not as their drafts, and those on which another manager set fields
 * that no draft has. Pure. A manager that sets them again each time gets a condition that names the field.
 */
import type { AnyObject, Draft } from '../../cluster/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Finding, no } from '../objects/conditions.ts'
import { type Drift, difference, driftOf } from '../objects/foreign-fields.ts'
import { draftAnnotation, isUpToDate } from '../objects/up-to-date.ts'
import type { AppliedKind, ApplyAction } from './actions.ts'
import { type Correction, childOf, type Drifts } from './drift-history.ts'

type Known = { drifts: Drifts }

/** What others set on a child, without what is the cluster's own. */
export function driftIn({ drifts }: Known, actual: AnyObject, draft: Draft<AppliedKind>): Drift[] {
  const tolerated = drifts.tolerated.get(childOf(actual))
  return driftOf(actual, draft).filter(({ mark }) => tolerated?.has(mark) !== true)
}

/** Whether a child is as its draft, and has nothing of others in what is the operator's. */
export const isAsDrafted = (
  observed: Known,
  actual: AnyObject | undefined,
  draft: Draft<AppliedKind> | undefined,
): boolean =>
  isUpToDate(actual, draft) &&
  (actual === undefined || draft === undefined || driftIn(observed, actual, draft).length === 0)

/** What another manager changed; nothing where the draft is a new one. */
function correctionsOf(
  { drifts: { written } }: Known,
  actual: AnyObject,
  draft: Draft<AppliedKind>,
  found: readonly Drift[],
): Correction[] {
  if (found.length > 0) return found.map(({ field, manager, mark }) => ({ field, manager, mark }))
  const [present, wanted] = [actual, draft].map(({ metadata }) => metadata.annotations?.[draftAnnotation])
  if (present !== wanted && written.get(childOf(actual)) !== wanted) return []
  const { field, mark } = difference(actual, draft) ?? { field: 'metadata', mark: 'metadata' }
  return [{ field, manager: 'another manager', mark }]
}

/** Returns the apply that a child needs; none if the child equals its draft, or if every changed field waits for its next restore. */
export function applyIfChanged<K extends AppliedKind>(
  observed: Known,
  kind: K,
  actual: AnyObject | undefined,
  draft: Draft<K>,
): ApplyAction[] {
  // A draft of one of these kinds, which the compiler does not see through the parameter.
  const wanted = draft as Draft<AppliedKind>
  const apply = { do: 'apply', kind, draft } as ApplyAction
  if (actual === undefined) return [apply]
  const drifts = driftIn(observed, actual, wanted)
  if (drifts.length === 0 && isUpToDate(actual, wanted)) return []
  const corrections = correctionsOf(observed, actual, wanted, drifts)
  if (corrections.length === 0) return [apply]
  const child = childOf(actual)
  const waiting = observed.drifts.contests.filter(contest => contest.child === child && !contest.isDue)
  const isHeld = corrections.every(({ field, mark }) =>
    waiting.some(contest => contest.field === field && (contest.mark ?? mark) === mark),
  )
  return isHeld ? [] : [{ ...apply, putBack: { corrections, drifts } }]
}

/** The condition of a database whose children another manager changes again and again. */
export function contestFinding({ drifts }: Known): Finding | undefined {
  const [contest] = drifts.contests.toSorted((left, right) => right.times - left.times)
  if (contest === undefined) return undefined
  const { child, field, manager, times, retryAt } = contest
  return no(
    'FieldContested',
    `${child}: ${field} was changed ${times} times in 10 minutes by ${manager} and put back each time; ` +
      `next at ${timestamp(retryAt)}. Remove what sets this field`,
  )
}

/** When to put a field back next, or to say that nobody changes it any more. */
export const contestWakes = ({ drifts }: Known): number[] =>
  drifts.contests.map(({ isDue, retryAt, endsAt }) => (isDue ? endsAt : retryAt))
