/**
 * What a suspension waits for: whatever is being made from the Postgres that runs. A backup that is waiting for its turn counts, since it
 * was asked for before; none can be asked for of a database that is to be suspended. Each ends by a deadline of its own. Pure.
 */

import { type Backup, type Branch, isLiveBranch } from '../../crds/index.ts'
import type { Hold } from '../member/observed.ts'

const isBeingTaken = ({ metadata, spec, status }: Backup): boolean =>
  spec.sourceBranch === undefined &&
  metadata.deletionTimestamp === undefined &&
  (status?.phase ?? 'pending') !== 'completed' &&
  status?.phase !== 'failed'

/** A branch of a branch asks nothing of the database. */
const isBeingCreated = (branch: Branch): boolean =>
  branch.spec.sourceBranch === undefined && isLiveBranch(branch) && (branch.status?.phase ?? 'creating') === 'creating'

/** `backups` and `branches`: of this database, whatever has become of them. */
export function suspensionBlock(backups: readonly Backup[], branches: readonly Branch[]): Hold | undefined {
  const backup = backups.find(isBeingTaken)
  if (backup !== undefined)
    return {
      reason: 'AwaitsBackup',
      message: `the backup ${backup.metadata.name} is being taken: Postgres is stopped when it has ended`,
    }
  const branch = branches.find(isBeingCreated)
  if (branch === undefined) return undefined
  return {
    reason: 'AwaitsBranch',
    message: `the branch ${branch.metadata.name} is being made: Postgres is stopped when it is there`,
  }
}
