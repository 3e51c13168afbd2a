/** The observed state of one branch. */
import {
  type Backup,
  type Branch,
  branchPhase,
  isFailedCreation,
  isMoveRunning,
  type ManagedDatabase,
  presentTarget,
} from '../../crds/index.ts'
import { type Recovery, recoverySource } from '../backup/recovery.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'
import type { PodSettings } from '../pod-settings.ts'

export type BranchStatus = NonNullable<Branch['status']>

/** The source of a branch: a database, or another branch. */
export type Source = ManagedDatabase | Branch

export type Observed = ObservedOwner & {
  branch: Branch
  /**
   * Undefined if no object has the source's name and id. Also undefined after the source is recorded, except while a
   * move to another target is requested.
   */
  source: Source | undefined
  /**
   * The database with the name `spec.databaseName` and the id `spec.databaseId`, even if the source is a branch.
   * Undefined if there is no such database.
   */
  root: ManagedDatabase | undefined
  /**
   * The Backup with the name of the branch's prebranch backup. `ownBackup` checks that it was taken for this branch.
   * After the branch's source is recorded, an ended Backup comes from the cache, which omits some fields.
   */
  backup: Backup | undefined
  /**
   * The backup and WAL from which `spec.target` can be recovered, or the reason why it cannot be recovered. Undefined
   * if `source` is undefined, if `spec.target` is absent, or if no durable backup of the database has the name
   * `spec.target.backupName`.
   */
  recovery?: Recovery
  /** The branch limit per database, if this branch exceeds the limit. */
  exceeded: number | undefined
}

/** Whether a deletion is requested, by `spec.deletionRequestedAt` or by a deletion of the object. */
export const isDeletionRequested = (branch: Branch): boolean => branchPhase(branch) === 'deleting'

/**
 * The data source of the volume. Empty until `status.source` is recorded. `awaitsSource`: the installation has no
 * archive, and `status.volume` is not set yet.
 */
function dataSourceOf(branch: Branch, pods: Pick<PodSettings, 'archive'>): Partial<Instance> {
  const { source, volume } = branch.status ?? {}
  const target = presentTarget(branch)
  if (source === undefined) return {}
  const { snapshotName, recovery, id, systemIdentifier, sizeBytes: bytes = 0 } = source
  if (snapshotName !== undefined)
    return { dataSource: { kind: 'snapshot', snapshot: snapshotName, id, systemIdentifier, bytes } }
  if (recovery === undefined || target === undefined) return {}
  const found = recoverySource({ databaseId: id, target }, recovery, pods)
  if ('source' in found) return { dataSource: found.source }
  // A new volume must not be initialised without its data source.
  return volume === undefined ? { awaitsSource: found.refused } : {}
}

/**
 * Returns the desired state of the branch's Postgres. A branch whose creation failed is treated as being deleted.
 * `now`: ms since the epoch.
 */
export function instanceOf(branch: Branch, now: number, pods: Pick<PodSettings, 'archive'>): Instance {
  const { kind, metadata, spec, status } = branch
  const { region, size, pgVersion, ipAllowlist, storage } = spec
  const since = deletionSince(branch, now)
  return {
    kind,
    metadata: since === undefined ? metadata : { ...metadata, deletionTimestamp: since },
    spec: { region, size, pgVersion, ipAllowlist, storage, suspended: false },
    ...(status === undefined ? {} : { status }),
    ...dataSourceOf(branch, pods),
    // During a move, the operator does not adopt the volumes of earlier targets.
    ...(isMoveRunning(branch) ? { firstIncarnation: status?.incarnation } : {}),
  }
}

/**
 * Returns the start time of the branch's deletion. A future `spec.deletionRequestedAt` counts as the current time.
 * Returns undefined if the branch is not being deleted.
 */
function deletionSince(branch: Branch, now: number): string | undefined {
  const { metadata, spec, status } = branch
  if (metadata.deletionTimestamp !== undefined) return metadata.deletionTimestamp
  const requestedAt = spec.deletionRequestedAt
  if (requestedAt !== undefined) return Date.parse(requestedAt) <= now ? requestedAt : new Date(now).toISOString()
  return isFailedCreation(branch) ? conditionOf(status, 'Ready')?.lastTransitionTime : undefined
}
