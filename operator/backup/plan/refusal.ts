/** Why a backup cannot be taken at all, whatever is waited for. Pure. */
import {
  type Backup,
  type Branch,
  branchPhase,
  isFailedCreation,
  isTeardownBegun,
  type ManagedDatabase,
  snapshotRefusal,
  visiblePhase,
} from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { snapshotsNotServed } from '../../objects/snapshots-not-served.ts'
import type { Observed } from '../observed.ts'

export type Refusal = { reason: string; message: string }

const refused = (reason: string, message: string): Refusal => ({ reason, message })

function databaseRefusal(database: ManagedDatabase, purpose: Backup['spec']['purpose']): Refusal | undefined {
  const phase = visiblePhase(database)
  // A database whose deletion is held up serves. The branch that this backup is for holds it up, also where no pass has said so yet.
  const block = conditionOf(database.status, 'DeletionBlocked')?.reason
  const isHeldUp = block === 'DeletionProtected' || block === 'HasBranches' || purpose === 'prebranch'
  const isGoing = phase === 'deleting' && (isTeardownBegun(database) || !isHeldUp)
  if (isGoing) return refused('DatabaseDeleting', 'the database is being deleted')
  // A suspension waits for the backups that were asked for before it.
  if (phase === 'suspended') return refused('DatabaseSuspended', 'the database is suspended: resume it first')
  if (phase === 'failed') return refused('DatabaseFailed', 'the database has failed: its conditions say why')
  return undefined
}

function branchRefusal(branch: Branch): Refusal | undefined {
  const phase = branchPhase(branch)
  if (phase === 'deleting' || phase === 'deleted') return refused('BranchDeleting', 'the branch is being deleted')
  // One that served before is waited for: its Postgres may just be restarted.
  if (isFailedCreation(branch)) return refused('BranchFailed', 'the branch has failed: its conditions say why')
  return undefined
}

/** What would have to change before a backup like this can be taken; undefined where it can, now or soon. */
export function refusalOf({ backup, source, snapshots, anchorOf }: Observed): Refusal | undefined {
  const { kind, purpose, databaseName, databaseId, sourceBranch } = backup.spec
  if (kind === 'durable')
    return refused(
      'NotAvailable',
      'this version of Espalier takes no durable backups: nothing comes of this, delete it',
    )
  if (source === undefined && sourceBranch !== undefined)
    return refused('BranchMissing', `there is no branch ${sourceBranch.name} with the id ${sourceBranch.id}`)
  if (source === undefined)
    return refused('DatabaseMissing', `there is no database ${databaseName} with the id ${databaseId}`)
  const { database, region } = source
  if (snapshots === 'absent') return refused('SnapshotsNotServed', snapshotsNotServed)
  // The volume is stopped, whatever its database is; but that the storage copies it whole is declared, or unknown.
  if (anchorOf !== undefined) return snapshotRefusal(database.spec.region, region)
  const ofSource = database.kind === 'Branch' ? branchRefusal(database) : databaseRefusal(database, purpose)
  return ofSource ?? snapshotRefusal(database.spec.region, region)
}
