/**
 * Decides which children the operator writes: children that differ from their drafts, and children with fields that
 * another manager set and no draft has. Pure. If a manager sets such fields repeatedly, a condition names the field.
 */
import type { AnyObject, Draft } from '../../cluster/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Finding, no } from '../objects/conditions.ts'
import { type Drift, difference, driftOf } from '../objects/foreign-fields.ts'
import { draftAnnotation, isUpToDate } from '../objects/up-to-date.ts'
import type { AppliedKind, ApplyAction } from './actions.ts'
import { type Correction, childOf, type Drifts } from './drift-history.ts'

type Known = { drifts: Drifts }

/** The fields of a child that other managers set, without the cluster's own fields. */
export function driftIn({ drifts }: Known, actual: AnyObject, draft: Draft<AppliedKind>): Drift[] {
  const tolerated = drifts.tolerated.get(childOf(actual))
  return driftOf(actual, draft).filter(({ fingerprint }) => tolerated?.has(fingerprint) !== true)
}

/** Whether a child equals its draft, and no other manager has set fields that the operator manages. */
export const isAsDrafted = (
  observed: Known,
  actual: AnyObject | undefined,
  draft: Draft<AppliedKind> | undefined,
): boolean =>
  isUpToDate(actual, draft) &&
  (actual === undefined || draft === undefined || driftIn(observed, actual, draft).length === 0)

/** Fields that another manager changed. Empty if the draft is new. */
function correctionsOf(
  { drifts: { written } }: Known,
  actual: AnyObject,
  draft: Draft<AppliedKind>,
  found: readonly Drift[],
): Correction[] {
  if (found.length > 0) return found.map(({ field, manager, fingerprint }) => ({ field, manager, fingerprint }))
  const [present, wanted] = [actual, draft].map(({ metadata }) => metadata.annotations?.[draftAnnotation])
  if (present !== wanted && written.get(childOf(actual)) !== wanted) return []
  const { field, fingerprint } = difference(actual, draft) ?? { field: 'metadata', fingerprint: 'metadata' }
  return [{ field, manager: 'another manager', fingerprint }]
}

/**
 * Returns the apply that a child needs. Empty if the child equals its draft, or if every changed field waits for its
 * next restore.
 */
export function applyIfChanged<K extends AppliedKind>(
  observed: Known,
  kind: K,
  actual: AnyObject | undefined,
  draft: Draft<K>,
): ApplyAction[] {
  // A draft of one of these kinds. The compiler cannot infer this from the parameter.
  const wanted = draft as Draft<AppliedKind>
  const apply = { do: 'apply', kind, draft } as ApplyAction
  if (actual === undefined) return [apply]
  const drifts = driftIn(observed, actual, wanted)
  if (drifts.length === 0 && isUpToDate(actual, wanted)) return []
  const corrections = correctionsOf(observed, actual, wanted, drifts)
  if (corrections.length === 0) return [apply]
  const child = childOf(actual)
  const waiting = observed.drifts.conflicts.filter(conflict => conflict.child === child && !conflict.isDue)
  const isDelayed = corrections.every(({ field, fingerprint }) =>
    waiting.some(conflict => conflict.field === field && (conflict.fingerprint ?? fingerprint) === fingerprint),
  )
  return isDelayed ? [] : [{ ...apply, putBack: { corrections, drifts } }]
}

/** The condition of a database whose children another manager changes repeatedly. */
export function conflictFinding({ drifts }: Known): Finding | undefined {
  const [conflict] = drifts.conflicts.toSorted((left, right) => right.times - left.times)
  if (conflict === undefined) return undefined
  const { child, field, manager, times, retryAt } = conflict
  return no(
    'FieldContested',
    `${child}: ${field} was changed ${times} times in 10 minutes by ${manager} and restored each time; ` +
      `next restore at ${timestamp(retryAt)}. Remove the cause of these changes`,
  )
}

/** The next times when a field must be restored, or a drift is no longer reported. */
export const conflictTimes = ({ drifts }: Known): number[] =>
  drifts.conflicts.map(({ isDue, retryAt, endsAt }) => (isDue ? endsAt : retryAt))
