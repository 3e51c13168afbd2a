/**
 * The Backup that a branch is made from: a snapshot of its source, of the purpose `prebranch`. It is there from before the
 * volume is asked for until that is bound, whatever becomes of the source meanwhile. Pure.
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
import { bytesTold } from '../../../values/quantity.ts'
import { timestamp } from '../../../values/time.ts'
import { isTakenFor } from '../../backup/taken.ts'
import { conditionOf } from '../../objects/conditions.ts'
import type { BranchStatus, Observed, Source } from '../observed.ts'
import type { Refusal } from './refusal.ts'

/** `id`: of the branch. The Backup's own comes with it as it is made. `isKept`: whether it is to outlive the making of the branch. */
export function prebranchDraft({ metadata, spec }: Branch, id: string, isKept: boolean): Draft<'Backup'> {
  const { namespace = '', labels: marks } = metadata
  const { databaseName, databaseId, sourceBranch } = spec
  const tenant = marks?.[labels.tenant]
  return {
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: childNames.prebranch(id),
      namespace,
      labels: { [labels.managedBy]: managedByEspalier, ...(tenant === undefined ? {} : { [labels.tenant]: tenant }) },
      ...(isKept ? {} : { annotations: { [annotations.singleUse]: 'true' } }),
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

/** The step of a Task while data are copied. */
export const copyingStep = 'Copying'

type Copied =
  /** `step`: as a Task names it. */
  | { state: 'underway'; step: string; message: string }
  | { state: 'cut'; source: NonNullable<BranchStatus['source']> }
  | { state: 'failed'; refusal: Refusal }

/** How far the copy is. */
export function copied(backup: Backup, branch: Branch, source: Source | undefined, now: number): Copied {
  const { metadata, status = {} } = backup
  const { databaseId, sourceBranch } = branch.spec
  const failed = (reason: string, message: string): Copied => ({ state: 'failed', refusal: { reason, message } })
  if (ownBackup({ branch, backup }) === undefined)
    return failed('NameTaken', `the backup ${metadata.name} is none of this branch's source`)
  const ready = conditionOf(status, 'Ready')
  if (status.phase === 'failed')
    return failed(ready?.reason ?? 'BackupFailed', `nothing could be copied: ${status.error ?? ready?.message ?? ''}`)
  if (metadata.deletionTimestamp !== undefined)
    return failed('SnapshotDeleted', 'what it was to be made from was deleted by somebody')
  const { snapshotName, endLsn, systemIdentifier, cutAt, sizeBytes } = status
  if (status.phase !== 'completed') {
    const { reason, message = 'waiting for a snapshot' } = conditionOf(status, 'Progressing') ?? {}
    return { state: 'underway', step: reason === 'AwaitingDatabase' ? reason : copyingStep, message }
  }
  if (snapshotName === undefined || endLsn === undefined || systemIdentifier === undefined)
    return failed('SnapshotUnknown', `the backup ${metadata.name} does not say what it is of`)
  const bytes = sizeBytes ?? bytesTold(source?.status?.storage?.capacity)
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

/** What a branch has copied for itself. */
export const prebranchOf = ({ databaseName, databaseId, sourceBranch }: Branch['spec']) => ({
  ...{ databaseName, databaseId, sourceBranch, purpose: 'prebranch' as const },
})

/** The backup that it is made from, and no other that has its name. */
export const ownBackup = ({ branch, backup }: Pick<Observed, 'branch' | 'backup'>): Backup | undefined =>
  backup !== undefined && isTakenFor(backup, prebranchOf(branch.spec)) ? backup : undefined

/** Whether the volume stands by itself. */
const isBound = ({ branch, children: { claim } }: Observed): boolean =>
  branch.status?.volume !== undefined || claim?.status?.phase === 'Bound'

/** Whether the copy has gone before the volume was made from it; a completed one that lost its snapshot says so. */
export const isLostBefore = (observed: Observed): boolean =>
  !isBound(observed) && (ownBackup(observed) === undefined || observed.backup?.status?.phase === 'failed')

/** Where the database's retention names its purpose, that says how long it stays. */
export const isKept = ({ root }: Pick<Observed, 'root'>): boolean =>
  root?.spec.backup.retention?.hot?.prebranch !== undefined

/** Whether it has done what it was for. */
export const isDone = (observed: Observed): boolean => isBound(observed) && !isKept(observed)
