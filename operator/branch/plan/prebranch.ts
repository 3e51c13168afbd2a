/**
 * The Backup from which a branch is copied: a snapshot of the branch's source, with the purpose `prebranch`. The
 * operator keeps the Backup until the branch's volume is bound, even if the source is deleted. Pure.
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

/**
 * `id`: the branch's id. The Backup gets its own id when it is created. `isRetained`: whether the Backup is kept after
 * the branch is created.
 */
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

/** The advice in the message of a failed creation. */
export const tryAgain = 'delete this branch, and create it again'

/** The step of a Task while the source is copied. */
export const copyingStep = 'Copying'

type Copied =
  /** `step`: the name of the step in the Task. */
  | { state: 'running'; step: string; message: string }
  | { state: 'completed'; source: NonNullable<BranchStatus['source']> }
  | { state: 'failed'; refusal: Refusal }

export function copied(backup: Backup, branch: Branch, source: Source | undefined, now: number): Copied {
  const { metadata, status = {} } = backup
  const { databaseId, sourceBranch } = branch.spec
  const failed = (reason: string, message: string): Copied => ({ state: 'failed', refusal: { reason, message } })
  if (ownBackup({ branch, backup }) === undefined)
    return failed('NameTaken', `the backup ${metadata.name} was not taken for this branch; ${tryAgain}`)
  const ready = conditionOf(status, 'Ready')
  if (status.phase === 'failed')
    return failed(
      ready?.reason ?? 'BackupFailed',
      `the source could not be copied: ${status.error ?? ready?.message ?? 'no reason was reported'}`,
    )
  if (metadata.deletionTimestamp !== undefined)
    return failed('SnapshotDeleted', `the branch's source backup was deleted before the copy was complete; ${tryAgain}`)
  const { snapshotName, endLsn, systemIdentifier, cutAt, sizeBytes } = status
  if (status.phase !== 'completed') {
    const { reason, message = 'waiting for a snapshot' } = conditionOf(status, 'Progressing') ?? {}
    return { state: 'running', step: reason === 'AwaitingDatabase' ? reason : copyingStep, message }
  }
  if (snapshotName === undefined || endLsn === undefined || systemIdentifier === undefined)
    return failed(
      'SnapshotUnknown',
      `the backup ${metadata.name} lacks status.snapshotName, status.endLsn or status.systemIdentifier; ${tryAgain}`,
    )
  const bytes = sizeBytes ?? sizeInBytes(source?.status?.storage?.capacity)
  return {
    state: 'completed',
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

/** The fields by which the operator recognises a Backup as this branch's prebranch backup. */
export const prebranchOf = ({ databaseName, databaseId, sourceBranch }: Branch['spec']) => ({
  ...{ databaseName, databaseId, sourceBranch, purpose: 'prebranch' as const },
})

/** The branch's source backup; undefined if the observed backup was not taken for this branch. */
export const ownBackup = ({ branch, backup }: Pick<Observed, 'branch' | 'backup'>): Backup | undefined =>
  backup !== undefined && isTakenFor(backup, prebranchOf(branch.spec)) ? backup : undefined

/** Whether the volume is recorded, or its claim is bound. A bound volume does not need the backup. */
const isBound = ({ branch, children: { claim } }: Observed): boolean =>
  branch.status?.volume !== undefined || claim?.status?.phase === 'Bound'

/** Whether the backup was deleted or failed before the branch's volume was bound. */
export const isLostBefore = (observed: Observed): boolean =>
  observed.branch.status?.source?.snapshotName !== undefined &&
  !isBound(observed) &&
  (ownBackup(observed) === undefined || observed.backup?.status?.phase === 'failed')

/** Whether the database's retention keeps the backup after the branch is created. */
export const isRetained = ({ root }: Pick<Observed, 'root'>): boolean =>
  root?.spec.backup.retention?.hot?.prebranch !== undefined

/** Whether the operator can delete the backup: the volume is bound, and the database's retention does not keep it. */
export const isDone = (observed: Observed): boolean => isBound(observed) && !isRetained(observed)
