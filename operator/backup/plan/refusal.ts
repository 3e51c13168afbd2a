/** Permanent reasons why a backup cannot be taken. Pure. */
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
  // A database whose deletion is blocked still serves clients. The branch that needs a prebranch backup blocks the
  // deletion, even before the condition reports that.
  const block = conditionOf(database.status, 'DeletionBlocked')?.reason
  const isDelayed = block === 'DeletionProtected' || block === 'HasBranches' || purpose === 'prebranch'
  const isDeleting = phase === 'deleting' && (isTeardownBegun(database) || !isDelayed)
  if (isDeleting) return refused('DatabaseDeleting', 'the database is being deleted')
  // A suspension waits for the backups that were requested before it.
  if (phase === 'suspended') return refused('DatabaseSuspended', 'the database is suspended: resume it first')
  if (phase === 'failed') return refused('DatabaseFailed', 'the database has failed: see its conditions')
  return undefined
}

function branchRefusal(branch: Branch): Refusal | undefined {
  const phase = branchPhase(branch)
  if (phase === 'deleting' || phase === 'deleted') return refused('BranchDeleting', 'the branch is being deleted')
  // If the branch has served before, the backup waits: Postgres may be restarting.
  if (isFailedCreation(branch)) return refused('BranchFailed', 'the branch has failed: see its conditions')
  return undefined
}

/** Why this database or branch cannot have durable backups. Its phase is checked elsewhere. */
function durableRefusal(database: ManagedDatabase | Branch, durable: Observed['durable']): Refusal | undefined {
  if (database.kind === 'Branch') return refused('NotAvailable', 'a branch has no durable backups: take a hot one')
  if (!database.spec.backup.durable)
    return refused('DurableTierOff', 'the durable tier is not enabled for this database (spec.backup.durable)')
  return durable?.hasArchive === true
    ? undefined
    : refused('NoArchive', 'this installation has no archive (archive.enabled of the chart)')
}

/** Returns why the backup cannot be taken. Undefined if it can be taken, now or later. */
export function refusalOf({ backup, source, snapshots, prerestoreOf, durable }: Observed): Refusal | undefined {
  const { kind, purpose, databaseName, databaseId, sourceBranch } = backup.spec
  if (source === undefined && sourceBranch !== undefined)
    return refused('BranchMissing', `there is no branch ${sourceBranch.name} with the id ${sourceBranch.id}`)
  if (source === undefined)
    return refused('DatabaseMissing', `there is no database ${databaseName} with the id ${databaseId}`)
  const { database, region } = source
  const ofSource = database.kind === 'Branch' ? branchRefusal(database) : databaseRefusal(database, purpose)
  if (kind === 'durable') return durableRefusal(database, durable) ?? ofSource
  if (snapshots === 'absent') return refused('SnapshotsNotServed', snapshotsNotServed)
  // A restore stops this Postgres, so the phase of the database does not matter. The region must still declare atomic
  // snapshots.
  if (prerestoreOf !== undefined) return snapshotRefusal(database.spec.region, region)
  return ofSource ?? snapshotRefusal(database.spec.region, region)
}
