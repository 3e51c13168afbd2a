/**
 * Moves of a Branch to another target. The operator recovers a new volume, which replaces the current one if it serves.
 * Also determines the target of the current data, and whether another target is requested.
 */
import { z } from 'zod'
import { timestamp } from './fields.ts'
import { volumeRecord } from './instance.ts'
import type { ObjectMeta } from './metadata.ts'
import { annotatedOperation } from './operation.ts'
import { isSameTarget, type RestoreTarget, recoveryRecord, restoreTarget } from './restore.ts'

/** The target without the validation rules of a spec. */
const recordedTarget = z.strictObject(restoreTarget.shape)

export const branchSource = z.strictObject({
  backupName: z.string().max(253).describe('The Backup that the volume is created from, until the volume exists.'),
  snapshotName: z
    .string()
    .max(253)
    .optional()
    .describe('The VolumeSnapshot that the volume is created from. Absent: the data are read from the archive.'),
  cutAt: timestamp.optional().describe('The point in time of the data.'),
  lsn: z
    .string()
    .max(20)
    .optional()
    .describe('The branch contains every transaction that the source committed before this WAL position.'),
  target: recordedTarget.optional().describe('The target that the data are of. Absent: a snapshot.'),
  recovery: recoveryRecord
    .optional()
    .describe('The part of the archive that the branch is created from. Absent: a snapshot.'),
  systemIdentifier: z.string().max(32).describe("The Postgres system identifier of the source's data."),
  id: z.string().max(36).describe('The id of the source database or branch.'),
  sizeBytes: z.int().min(0).meta({ format: 'int64' }).optional().describe('The minimum size of the volume.'),
  recordedAt: timestamp.describe('When this was recorded.'),
})

export const branchMove = z.strictObject({
  target: recordedTarget.describe('The target that it moves to.'),
  taskId: z.string().max(64).describe('The name of the Task that records the move.'),
  incarnation: z.int().min(1).optional().describe('The number of the new volume. Absent: none was created.'),
  startedAt: timestamp.describe('When the move began.'),
  deadlineAt: timestamp
    .optional()
    .describe('When the move fails, unless the branch serves from the new volume by then.'),
  endedAt: timestamp.optional().describe('When the move ended. Absent: it runs.'),
  previous: z
    .strictObject({
      incarnation: z.int().min(1).describe('The number of the volume.'),
      volume: volumeRecord.describe('The volume.'),
      source: branchSource.describe('What it was created from.'),
    })
    .optional()
    .describe('The previous volume and its source: used again if the move fails, and deleted if it succeeds.'),
  deletedAt: timestamp.optional().describe('When the previous volume was deleted.'),
  reason: z.string().max(63).optional().describe('Why the move failed, as one CamelCase word for programs.'),
  error: z.string().max(1000).optional().describe('Why the move failed, as text for users.'),
})

export type BranchMove = z.output<typeof branchMove>

/** The fields of a Branch that this module reads. */
type Moved = {
  metadata: ObjectMeta
  spec: { target?: RestoreTarget | undefined }
  status?:
    | {
        source?: z.output<typeof branchSource> | undefined
        move?: BranchMove | undefined
        connectableAt?: string | undefined
      }
    | undefined
}

/** The target of the current data. Undefined for a copy of current data, and before the source is recorded. */
export function presentTarget({ spec, status }: Pick<Moved, 'spec' | 'status'>): RestoreTarget | undefined {
  const { target, recovery, cutAt, lsn } = status?.source ?? {}
  if (target !== undefined || recovery === undefined || spec.target === undefined) return target
  // Branches of earlier versions have no record of their target.
  if (cutAt !== undefined) return { time: cutAt }
  if (lsn !== undefined) return { lsn }
  return spec.target.pointName === undefined ? { backupName: recovery.backupName } : spec.target
}

export const isMoveRunning = ({ status }: Pick<Moved, 'status'>): boolean =>
  status?.move !== undefined && status.move.endedAt === undefined

/** The text for a target in the annotation of an operation. */
export const targetText = ({ backupName, time, lsn, pointName }: RestoreTarget): string =>
  JSON.stringify([backupName, time, lsn, pointName])

/**
 * The Task of the API's request to move to the current `spec.target`. Undefined if the API did not request this target.
 */
export function requestedMove(branch: Pick<Moved, 'metadata' | 'spec'>): string | undefined {
  const operation = annotatedOperation(branch)
  const { target } = branch.spec
  const isIt = operation?.name === 'move-branch' && target !== undefined && operation.hash === targetText(target)
  return isIt ? operation.taskId : undefined
}

/** Whether another target than that of the current data is requested, and no move to it has failed or runs. */
export function isMoveRequested(branch: Moved): boolean {
  const { target } = branch.spec
  const { move, connectableAt } = branch.status ?? {}
  const present = presentTarget(branch)
  if (target === undefined || present === undefined || connectableAt === undefined) return false
  if (isSameTarget(target, present)) return false
  if (move?.error === undefined || !isSameTarget(move.target, target)) return true
  const taskId = requestedMove(branch)
  return taskId !== undefined && taskId !== move.taskId
}
