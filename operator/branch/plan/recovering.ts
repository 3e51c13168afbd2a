/**
 * Plans the source of a branch with `spec.target`. The operator recovers this branch from the archive, so the source's
 * Postgres does not have to run. Pure.
 */
import type { RecoveryRecord } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import type { BranchStatus, Observed } from '../observed.ts'
import { type Refusal, refused } from './refusal.ts'

export const isOutOfArchive = ({ branch }: Pick<Observed, 'branch'>): boolean => branch.spec.target !== undefined

/** Whether an older operator version ignored `spec.target` and took a snapshot of the source. */
export const isCopiedInstead = ({ branch: { spec, status } }: Observed): boolean =>
  spec.target !== undefined && status?.source?.snapshotName !== undefined

export const recoverableMessage = (backup: string): string =>
  `the archive has the data for spec.target: the backup ${backup} and the WAL after it`

export const recoveringMessage = 'the base backup is being extracted, and WAL is being replayed'

/** Whether the pod's init container recovers the data: the pod exists, and Postgres does not run yet. */
export const isRecovering = ({ instance: { dataSource, status }, pod }: Observed): boolean =>
  dataSource?.kind === 'archive' &&
  status?.volume === undefined &&
  pod !== undefined &&
  pod.address === undefined &&
  !pod.terminating &&
  pod.problem === undefined

type Source = NonNullable<BranchStatus['source']>

/** @returns the source for `status.source`, or the reason why the target cannot be recovered */
export function recovered({ branch, recovery }: Observed, now: number): { source: Source } | { refused: Refusal } {
  const { databaseId, target = {} } = branch.spec
  if (recovery === undefined)
    return {
      refused: refused(
        'BackupNotDurable',
        `spec.target.backupName: there is no durable backup ${target.backupName} of the database; use a durable backup of this database`,
      ),
    }
  if ('refused' in recovery) return recovery
  const { record } = recovery
  return { source: sourceOf(record, databaseId, target, now) }
}

function sourceOf(
  recovery: RecoveryRecord,
  id: string,
  target: NonNullable<Observed['branch']['spec']['target']>,
  now: number,
): Source {
  const { backupName, systemIdentifier, sizeBytes } = recovery
  const { time, lsn } = target
  return {
    ...{ backupName, target, recovery, systemIdentifier, id, recordedAt: timestamp(now) },
    ...(time === undefined ? {} : { cutAt: time }),
    ...(lsn === undefined ? {} : { lsn }),
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
  }
}
