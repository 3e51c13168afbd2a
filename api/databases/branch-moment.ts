/**
 * `branch_id` of a restore: the target from which a branch was recovered. The restore does not include what clients
 * wrote on the branch. Refuses by throwing ApiError.
 */
import type { Kinds } from '../../cluster/index.ts'
import {
  branchPhase,
  presentTarget,
  type RecoveryRecord,
  type RestoreTarget,
  recoveryOfBackup,
  recoveryTo,
  recoveryWindow,
} from '../../crds/index.ts'
import { readOwned } from '../caches.ts'
import { badRequest, conflict, notFound, retryAfter } from '../errors.ts'
import type { Writer } from '../writer.ts'
import { backupsOf } from './moment.ts'

type Database = Kinds['ManagedDatabase']
type Branch = Kinds['Branch']

/**
 * Returns the target of the Restore. `database`: the caller has checked that no operation runs. @throws ApiError 400,
 * 404, 409
 */
export async function branchMoment(
  writer: Writer,
  { database, databaseId, branchId }: { database: Database; databaseId: string; branchId: string },
): Promise<RestoreTarget> {
  const { context, account } = writer
  const branch = await readOwned(context.cluster, 'Branch', account.namespace, branchId)
  if (branch === undefined) throw notFound('branch')
  if (branch.spec.databaseId !== databaseId) throw badRequest('branch_id: the branch belongs to another database')
  const { target, recovery } = recoveredFrom(branch)
  if (!database.spec.backup.durable) throw badRequest('branch_id: the durable tier of the database is off')
  refuseOther(recovery, await present(writer, { database, databaseId, target }), target)
  return target
}

/** @throws ApiError 400 for a branch without a target; 409 if the branch does not have its target's data now */
function recoveredFrom(branch: Branch): { target: RestoreTarget; recovery: RecoveryRecord } {
  const { metadata, spec, status } = branch
  if (spec.target === undefined)
    throw badRequest('branch_id: the branch was created without a target; use a branch that was created with a target')
  const phase = branchPhase(branch)
  if (phase === 'deleting' || phase === 'deleted') throw conflict(`the branch ${metadata.name} is ${phase}`)
  const recovery = status?.source?.recovery
  const target = presentTarget(branch)
  if (phase === 'creating' || status?.connectableAt === undefined || recovery === undefined || target === undefined)
    throw conflict(
      `the branch ${metadata.name} is ${phase}: its target can be restored once the branch is available`,
      phase === 'creating' ? retryAfter.busy : undefined,
    )
  return { target, recovery }
}

/** Returns the archive record to which the target resolves now. @throws ApiError 400, 409 */
async function present(
  { context, account: { namespace } }: Writer,
  { database, databaseId, target }: { database: Database; databaseId: string; target: RestoreTarget },
): Promise<RecoveryRecord> {
  const { backupName: name, ...moment } = target
  if (name !== undefined) {
    const backup = await context.cluster.get('Backup', { namespace, name })
    const record = backup?.spec.databaseId === databaseId ? recoveryOfBackup(backup) : undefined
    if (record === undefined) throw conflict(`the backup ${name}, which the branch was created from, is deleted`)
    return record
  }
  const chosen = recoveryTo(recoveryWindow(database, backupsOf(context, namespace, databaseId)), moment)
  if ('refused' in chosen) throw badRequest(`branch_id: ${chosen.refused}`)
  return chosen.record
}

/**
 * A time, an LSN or a restore point's name is valid only for one volume. A name is valid only after one base backup.
 * @throws ApiError 409
 */
function refuseOther(recorded: RecoveryRecord, now: RecoveryRecord, { time, lsn }: RestoreTarget): void {
  if (now.incarnation !== recorded.incarnation)
    throw conflict(
      "the database was restored after the branch was created: the branch's target now refers to other data",
    )
  if (time === undefined && lsn === undefined && now.backupId !== recorded.backupId)
    throw conflict(`the backup ${recorded.backupName}, which the branch was created from, is deleted`)
}
