/**
 * Plans the deletion of a database: first its branches, then its Postgres (workload/plan/teardown.ts) and its backups,
 * unless `spec.deletion.keepBackups` is set. The operator removes the finalizer once nothing remains.
 */
import {
  annotations,
  type Branch,
  type BranchSlot,
  blocksDeletion,
  branchSlots,
  isCreatedBefore,
  isTeardownBegun,
  labels,
  slotMs,
} from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { remove, type Teardown, teardown } from '../../workload/plan/teardown.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'
import { dueDeletionRecord, outlivesDatabase } from './deletion-record.ts'

const counted = (count: number, what: string, whats: string): string =>
  count === 1 ? `a ${what}` : `${count} ${whats}`

/**
 * Branches that block a deletion. A branch created after the deletion request does not block: its creation fails,
 * because its source is being deleted.
 */
const blockingBranches = ({ database, branches }: Observed): Branch[] =>
  branches.filter(
    branch => blocksDeletion(branch) && isCreatedBefore(branch, database.metadata.deletionTimestamp ?? ''),
  )

/** Branch slots: the API reserves one before it creates a branch. Returns those whose Branch does not exist yet. */
const awaitedSlots = ({ database, branches }: Observed, now: number): BranchSlot[] => {
  const seen = new Set(branches.map(({ metadata }) => metadata.labels?.[labels.id]))
  return branchSlots(database, now).filter(({ id }) => !seen.has(id))
}

/**
 * When to check a blocked deletion again. The slot of a branch that the API never creates expires, and no event reports
 * that.
 */
export const slotsEndAt = (observed: Observed, now: number): number | undefined => {
  const [first] = awaitedSlots(observed, now).map(({ at }) => at + slotMs)
  return observed.database.metadata.deletionTimestamp === undefined ? undefined : first
}

/**
 * Whether to delete only the ManagedDatabase and keep Postgres and the data. Not possible once the teardown started.
 */
export const isOrphaned = ({ metadata, status }: Observed['database']): boolean =>
  metadata.deletionTimestamp !== undefined &&
  metadata.annotations?.[annotations.orphan] === 'true' &&
  !isTeardownBegun({ metadata, status })

/** Returns why a requested deletion does not start. Postgres keeps running. */
export function deletionBlock(observed: Observed, now: number): { reason: string; message: string } | undefined {
  const { database } = observed
  if (database.spec.deletionProtection)
    return {
      reason: 'DeletionProtected',
      message: 'deletion protection is on: switch it off (spec.deletionProtection) to continue the deletion',
    }
  // Nothing blocks a teardown that has started: the operator listed the branches before.
  if (isTeardownBegun(database) || database.metadata.annotations?.[annotations.force] === 'true') return undefined
  const blocking = blockingBranches(observed).length + awaitedSlots(observed, now).length
  if (blocking === 0) return undefined
  return {
    reason: 'HasBranches',
    message: `the database has ${counted(blocking, 'branch', 'branches')}. To continue the deletion, delete the branches first, or set ${annotations.force}=true to delete them too. To keep the database, set ${annotations.orphan}=true and create it again with its id`,
  }
}

/** A deleted backup deletes its snapshot. */
function backupsStep(observed: Observed): Teardown | undefined {
  if (observed.database.spec.deletion.keepBackups) return undefined
  const backups = observed.backups.filter(backup => !outlivesDatabase(observed, backup))
  if (backups.length === 0) return undefined
  return {
    actions: remove('Backup', backups),
    message: `deleting ${counted(backups.length, 'backup', 'backups')}`,
    progress: 85,
  }
}

/** A deleted branch leaves a record for 30 days. The record is deleted with the database. */
function branchesMessage(branches: Observed['branches']): string {
  const remaining = branches.filter(({ status }) => status?.phase !== 'deleted').length
  return remaining === 0 ? 'deleting the records of branches' : `deleting ${counted(remaining, 'branch', 'branches')}`
}

export function teardownStep(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
): Omit<Teardown, 'actions'> & { actions: Action[] } {
  // The operator writes the record first: after the deletion, the contents of the archive are unknown.
  const record = dueDeletionRecord(observed)
  if (record !== undefined)
    return { actions: [{ do: 'record-deletion', draft: record }], message: 'recording the deletion', progress: 5 }
  // A branch with an empty databaseId waits for a database with this name, and has no data.
  const branches = observed.branches.filter(({ spec }) => spec.databaseId !== '')
  if (branches.length > 0)
    return { actions: remove('Branch', branches), message: branchesMessage(branches), progress: 10 }
  const step = teardown(
    observed,
    owner,
    now,
    () => backupsStep(observed),
    object => outlivesDatabase(observed, object),
  )
  return step.isDone ? { ...step, actions: [{ do: 'finish-deletion' }] } : step
}
