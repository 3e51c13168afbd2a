/**
 * The Backup that a branch is copied from: a snapshot of its source, with the purpose `prebranch`. It exists until the
 * branch's volume is bound, even if the source is deleted in the meantime. Pure.
 */
import type { Draft } from '../../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  type Backup,
  type Branch,
  childNames,
  labels,
  managedByEspalier,
  teardownFinalizer,
} from '../../../crds/index.ts'
import { sizeInBytes } from '../../../values/quantity.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { isTakenFor } from '../../objects/operator-backups.ts'
import type { BranchStatus, Observed, Source } from '../observed.ts'
import type { Refusal } from './refusal.ts'

/** `id`: of the branch. The Backup gets its own id when it is created. `isRetained`: whether it outlives the creation of the branch. */
export function prebranchDraft({ metadata, spec }: Branch, id: string, isRetained: boolean): Draft<'Backup'> {
  const { namespace = '', labels: objectLabels } = metadata
  const { databaseName, databaseId, sourceBranch } = spec
  const tenant = objectLabels?.[labels.tenant]
  return {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: childNames.prebranch(id),
      namespace,
      labels: { [labels.managedBy]: managedByEspalier, ...(tenant === undefined ? {} : { [labels.tenant]: tenant }) },
      ...(isRetained ? {} : { annotations: { [annotations.singleUse]: 'true' } }),
      finalizers: [teardownFinalizer],
    },
    spec: {
      databaseName,
      databaseId,
      ...(sourceBranch === undefined ? {} : { sourceBranch }),
      kind: 'hot',
      purpose: 'prebranch',
    },
  }
}

/** The step of a Task while the source is copied. */
export const copyingStep = 'Copying'

type Copied =
  /** `step`: as a Task names it. */
  | { state: 'underway'; step: string; message: string }
  | { state: 'cut'; source: NonNullable<BranchStatus['source']> }
  | { state: 'failed'; refusal: Refusal }

/** The state of the copy. */
export function copied(backup: Backup, branch: Branch, source: Source | undefined, now: number): Copied {
  const { metadata, status = {} } = backup
  const { databaseId, sourceBranch } = branch.spec
  const failed = (reason: string, message: string): Copied => ({ state: 'failed', refusal: { reason, message } })
  if (ownBackup({ branch, backup }) === undefined)
    return failed('NameTaken', `the backup ${metadata.name} is not a backup of this branch's source`)
  const ready = conditionOf(status, 'Ready')
  if (status.phase === 'failed')
    return failed(ready?.reason ?? 'BackupFailed', `nothing could be copied: ${status.error ?? ready?.message ?? ''}`)
  if (metadata.deletionTimestamp !== undefined)
    return failed('SnapshotDeleted', 'the backup to create it from was deleted')
  const { snapshotName, endLsn, systemIdentifier, cutAt, sizeBytes } = status
  if (status.phase !== 'completed') {
    const { reason, message = 'waiting for a snapshot' } = conditionOf(status, 'Progressing') ?? {}
    return { state: 'underway', step: reason === 'AwaitingDatabase' ? reason : copyingStep, message }
  }
  if (snapshotName === undefined || endLsn === undefined || systemIdentifier === undefined)
    return failed(
      'SnapshotUnknown',
      `the backup ${metadata.name} has no snapshot, position or system identifier in its status`,
    )
  const bytes = sizeBytes ?? sizeInBytes(source?.status?.storage?.capacity)
  return {
    state: 'cut',
    source: {
      backupName: metadata.name,
      snapshotName,
      cutAt,
      lsn: endLsn,
      systemIdentifier,
      id: sourceBranch?.id ?? databaseId,
      sizeBytes: bytes,
      recordedAt: timestamp(now),
    },
  }
}

/** The spec of a branch's backup. */
export const prebranchOf = ({ databaseName, databaseId, sourceBranch }: Branch['spec']) => ({
  ...{ databaseName, databaseId, sourceBranch, purpose: 'prebranch' as const },
})

/** The backup that the branch is copied from; undefined if the backup with that name was not taken for this branch. */
export const ownBackup = ({ branch, backup }: Pick<Observed, 'branch' | 'backup'>): Backup | undefined =>
  backup !== undefined && isTakenFor(backup, prebranchOf(branch.spec)) ? backup : undefined

/** Whether the volume no longer needs the backup. */
const isBound = ({ branch, children: { claim } }: Observed): boolean =>
  branch.status?.volume !== undefined || claim?.status?.phase === 'Bound'

/** Whether the backup was deleted, or lost its snapshot, before the volume was created from it. */
export const isLostBefore = (observed: Observed): boolean =>
  observed.branch.status?.source?.snapshotName !== undefined &&
  !isBound(observed) &&
  (ownBackup(observed) === undefined || observed.backup?.status?.phase === 'failed')

/** Whether the database's retention, and not the branch, decides how long the backup is kept. */
export const isRetained = ({ root }: Pick<Observed, 'root'>): boolean =>
  root?.spec.backup.retention?.hot?.prebranch !== undefined

/** Whether the backup is no longer needed. */
export const isDone = (observed: Observed): boolean => isBound(observed) && !isRetained(observed)
