/**
 * Moves a branch to another target. One status write records the new source and the next incarnation (volume number),
 * and removes the volume from the status. The operator then creates a volume and a Postgres, as for a new branch.
 * During the move, the previous Postgres and its volume remain, and the branch's endpoint is closed. Once the branch
 * serves from the new volume, the operator deletes the previous volume. If the target cannot be recovered, one status
 * write records the previous volume again. Pure.
 */
import {
  childNames,
  firstMember,
  isMoveRequested,
  isMoveRunning,
  isSameTarget,
  labels,
  type ObjectMeta,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { recoveryMs } from '../../backup/recovery.ts'
import { completed, type Finding, no, yes } from '../../objects/conditions.ts'
import { nothing } from '../../owner/plan/steps.ts'
import type { Assessment } from '../../workload/plan/assessment.ts'
import type { Action, Replaced } from '../actions.ts'
import type { BranchStatus, Observed } from '../observed.ts'
import { moveOperation } from './operation.ts'
import { type Plan, type PlanSettings, withFindings } from './plan.ts'
import { copyingStep } from './prebranch.ts'
import { recoverableMessage, recovered } from './recovering.ts'
import { type Refusal, refused } from './refusal.ts'

type Move = NonNullable<BranchStatus['move']>

/** The plan that starts a requested move, or records its refusal; undefined if no move can start now. */
export function beginning(observed: Observed, now: number, settings: PlanSettings): Plan | undefined {
  const { branch } = observed
  const { spec, status = {} } = branch
  const { target } = spec
  const { source, volume, incarnation = 1 } = status
  if (target === undefined || source === undefined || volume === undefined || !isMoveRequested(branch)) return undefined
  // A move waits until the previous operation has ended and the operator has deleted the unused volume of the last
  // move.
  if (isMoveRunning(branch) || status.operation !== undefined || replacedBy(observed) !== undefined) return undefined
  const operation = moveOperation(branch, now)
  const move = { target, taskId: operation.taskId, startedAt: timestamp(now) }
  const found = observed.source === undefined ? missing(observed) : recovered(observed, now)
  if ('refused' in found) {
    const used = status.move?.incarnation ?? 0
    // Keeps the incarnation of the failed move, so that no later move reuses it.
    const ended = { ...move, ...failure(found.refused, now), ...(used > incarnation ? { incarnation: used } : {}) }
    return nothing(withFindings(observed, { Progressing: failed(found.refused) }, { operation, move: ended }, now))
  }
  const next = 1 + Math.max(incarnation, status.move?.incarnation ?? 1, ...observed.owned.claims.map(incarnationOf))
  const deadlineAt = timestamp(now + settings.creatingMs + recoveryMs(found.source.recovery))
  const begun = { ...move, incarnation: next, deadlineAt, previous: { incarnation, volume, source } }
  const findings = {
    Ready: no('Moving', "the branch's data are being recovered from the archive"),
    Progressing: yes(copyingStep, recoverableMessage(found.source.backupName)),
  }
  const more = { operation, move: begun, source: found.source, incarnation: next }
  // `storage` and `storageUsedBytes` describe the previous volume.
  const emptied = { volume: undefined, storage: undefined, storageUsedBytes: undefined }
  return nothing(withFindings(observed, findings, { phase: 'creating', ...more, ...emptied }, now))
}

const missing = ({ branch: { spec } }: Observed): { refused: Refusal } => ({
  refused: refused('SourceMissing', `there is no database ${spec.databaseName} with the id ${spec.databaseId}`),
})

const failure = ({ reason, message }: Refusal, now: number): Pick<Move, 'endedAt' | 'reason' | 'error'> => ({
  ...{ endedAt: timestamp(now), reason },
  error: message.slice(0, 1000),
})

const failed = ({ reason, message }: Refusal): Finding =>
  no(reason, `the move failed, and the branch keeps its data: ${message}`)

/** The deadline of the running move, in ms since the epoch; undefined if no move is running. */
export const moveDeadline = ({ branch }: Observed): number | undefined =>
  isMoveRunning(branch) ? Date.parse(branch.status?.move?.deadlineAt ?? '') : undefined

/**
 * Returns the plan that ends a failed move. Returns undefined if no move is running, or if the move can still succeed.
 * `progress`: what the move waits for.
 */
export function returning(
  observed: Observed,
  { fatal, serves }: Assessment,
  now: number,
  progress: string | undefined,
): Plan | undefined {
  const { branch } = observed
  const { move } = branch.status ?? {}
  if (move?.previous === undefined || !isMoveRunning(branch) || serves) return undefined
  const late = now >= (moveDeadline(observed) ?? Number.POSITIVE_INFINITY)
  const waited = progress ?? 'no progress was reported'
  const overdue = refused(
    'DeadlineExceeded',
    `Postgres did not serve from the new volume before the deadline: ${waited}`,
  )
  const refusal = fatal ?? (late ? overdue : undefined)
  if (refusal === undefined) return undefined
  const { previous, ...rest } = move
  const ended: Move = { ...rest, ...failure(refusal, now) }
  const findings = {
    Ready: no('Moving', 'the branch returns to its previous volume, and its endpoint is being opened'),
    Progressing: failed(refusal),
  }
  return nothing(withFindings(observed, findings, { ...previous, move: ended }, now))
}

/**
 * The condition Progressing of a connectable branch. Returns undefined while a move runs and the branch does not serve.
 */
export function progressOf({ branch }: Observed, serves: boolean): Finding | undefined {
  const { spec, status = {} } = branch
  const { move, operation } = status
  // Until the Task of the last operation has ended, Progressing reports that operation and not the queued move.
  if (isMoveRequested(branch) && operation === undefined)
    return yes('Queued', 'the requested move waits until the operator has deleted the unused volume of the last move')
  if (move === undefined) return no(completed, 'the branch has become connectable')
  if (isMoveRunning(branch)) return serves ? no(completed, 'the branch has moved') : undefined
  const { target, error, reason = 'MoveFailed' } = move
  if (error === undefined) return no(completed, 'the branch has moved')
  return spec.target !== undefined && isSameTarget(target, spec.target)
    ? failed({ reason, message: error })
    : no(completed, 'the branch has become connectable')
}

/** `status.move`, with `endedAt` once the branch serves from the new volume. */
export const moveAfter = ({ branch }: Observed, serves: boolean, now: number): BranchStatus['move'] => {
  const { move } = branch.status ?? {}
  return move !== undefined && isMoveRunning(branch) && serves ? { ...move, endedAt: timestamp(now) } : move
}

/**
 * Returns the action that deletes the unused volume of the last move. Empty if there is nothing to delete. `status`:
 * the status that this plan writes.
 */
export function deletion(observed: Observed, status: BranchStatus, now: number): Action[] {
  const replaced = replacedBy(observed)
  const { move } = status
  if (replaced === undefined || move === undefined) return []
  const deletedAt = move.deletedAt ?? timestamp(now)
  const after = move.error === undefined ? { ...status, move: { ...move, deletedAt } } : status
  return [{ do: 'delete-replaced', replaced, status: after }]
}

/**
 * Returns the volume to delete: the previous volume, or the volume of a failed move.
 */
export function replacedBy(observed: Observed): Replaced | undefined {
  const { status = {} } = observed.branch
  const { move } = status
  const incarnation = replacedIncarnation(status)
  if (move === undefined || incarnation === undefined) return undefined
  const isDue = move.error === undefined && move.deletedAt === undefined
  return isDue || isLeft(observed, incarnation) ? { incarnation, claimUid: move.previous?.volume.uid } : undefined
}

/**
 * The incarnation of the volume to delete after the last move: the previous volume, or the new volume if the move
 * failed. Undefined if no move has ended, or if the branch uses this incarnation.
 */
export function replacedIncarnation({ move, incarnation: serving }: BranchStatus): number | undefined {
  if (move?.endedAt === undefined) return undefined
  const incarnation = move.error === undefined ? move.previous?.incarnation : move.incarnation
  return incarnation === serving ? undefined : incarnation
}

const incarnationOf = ({ metadata }: { metadata: ObjectMeta }): number =>
  Number(metadata.labels?.[labels.incarnation]) || 0

function isLeft({ owned, owner }: Observed, incarnation: number): boolean {
  if (owner === undefined) return false
  const { claims, statefulSets, configurations, secrets } = owned
  const names = [childNames.configuration, childNames.archiveSource].map(name =>
    name(owner.id, incarnation, firstMember),
  )
  return (
    [...claims, ...statefulSets].some(object => incarnationOf(object) === incarnation) ||
    [...configurations, ...secrets].some(({ metadata }) => names.includes(metadata.name))
  )
}
