/**
 * What blocks a suspension: backups and branches that the operator is taking from the running Postgres. A queued backup
 * counts, because it was requested before the suspension. Each of them has its own deadline. Pure.
 */

import { type Backup, type Branch, isLiveBranch } from '../../crds/index.ts'

/** Why the operator does not stop Postgres for a suspension yet. */
export type SuspensionBlock = { reason: string; message: string }

const isBeingTaken = ({ metadata, spec, status }: Backup): boolean =>
  spec.sourceBranch === undefined &&
  metadata.deletionTimestamp === undefined &&
  (status?.phase ?? 'pending') !== 'completed' &&
  status?.phase !== 'failed'

/** A branch of a branch, and a branch from the archive, do not need the database. */
const isBeingCreated = (branch: Branch): boolean =>
  branch.spec.sourceBranch === undefined &&
  branch.spec.target === undefined &&
  isLiveBranch(branch) &&
  (branch.status?.phase ?? 'creating') === 'creating'

/** `backups` and `branches`: of this database, in any phase. */
export function suspensionBlock(backups: readonly Backup[], branches: readonly Branch[]): SuspensionBlock | undefined {
  const backup = backups.find(isBeingTaken)
  if (backup !== undefined)
    return {
      reason: 'AwaitsBackup',
      message: `the backup ${backup.metadata.name} is being taken: the operator stops Postgres when the backup has ended`,
    }
  const branch = branches.find(isBeingCreated)
  if (branch === undefined) return undefined
  return {
    reason: 'AwaitsBranch',
    message: `the branch ${branch.metadata.name} is being created: the operator stops Postgres when the branch has its data`,
  }
}
