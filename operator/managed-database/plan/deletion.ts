/**
 * Plans the deletion of a database: its branches first, then its Postgres (workload/plan/teardown.ts) and, unless they
 * are to be kept, its backups. The finalizer is removed once nothing remains.
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

/** Branches that block a deletion. A branch that was created after the request fails, since its source is being deleted. */
const blockingBranches = ({ database, branches }: Observed): Branch[] =>
  branches.filter(
    branch => blocksDeletion(branch) && isCreatedBefore(branch, database.metadata.deletionTimestamp ?? ''),
  )

/** Slots of branches that the API is creating at this moment. */
const awaitedSlots = ({ database, branches }: Observed, now: number): BranchSlot[] => {
  const seen = new Set(branches.map(({ metadata }) => metadata.labels?.[labels.id]))
  return branchSlots(database, now).filter(({ id }) => !seen.has(id))
}

/**
 * When to check again whether a deletion is blocked, even without an event: the slot of a branch that was never created
 * expires.
 */
export const slotsEndAt = (observed: Observed, now: number): number | undefined => {
  const [first] = awaitedSlots(observed, now).map(({ at }) => at + slotMs)
  return observed.database.metadata.deletionTimestamp === undefined ? undefined : first
}

/** Whether only the object is to be deleted, and nothing that belongs to it. This is impossible once the teardown has begun. */
export const isOrphaned = ({ metadata, status }: Observed['database']): boolean =>
  metadata.deletionTimestamp !== undefined &&
  metadata.annotations?.[annotations.orphan] === 'true' &&
  !isTeardownBegun({ metadata, status })

/** Why a requested deletion does not start. The database still serves. */
export function deletionBlock(observed: Observed, now: number): { reason: string; message: string } | undefined {
  const { database } = observed
  if (database.spec.deletionProtection)
    return {
      reason: 'DeletionProtected',
      message: 'deletion protection is on: switch it off (spec.deletionProtection) to continue the deletion',
    }
  // A teardown that has begun is completed: the operator listed the branches before it.
  if (isTeardownBegun(database) || database.metadata.annotations?.[annotations.force] === 'true') return undefined
  const blocking = blockingBranches(observed).length + awaitedSlots(observed, now).length
  if (blocking === 0) return undefined
  return {
    reason: 'HasBranches',
    message: `the database has ${counted(blocking, 'branch', 'branches')}: it is deleted once ${blocking === 1 ? 'that is' : 'those are'} deleted, or with the annotation ${annotations.force}=true; to keep the database, annotate it with ${annotations.orphan}=true and create it again under its id`,
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

/** A deleted branch leaves a record for 30 days, which is deleted with its database. */
function branchesMessage(branches: Observed['branches']): string {
  const remaining = branches.filter(({ status }) => status?.phase !== 'deleted').length
  return remaining === 0 ? 'deleting the records of branches' : `deleting ${counted(remaining, 'branch', 'branches')}`
}

export function teardownStep(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
): Omit<Teardown, 'actions'> & { actions: Action[] } {
  // Before anything is deleted: afterwards the contents of the archive are unknown.
  const record = dueDeletionRecord(observed)
  if (record !== undefined)
    return { actions: [{ do: 'record-deletion', draft: record }], message: 'recording the deletion', progress: 5 }
  // A branch without an id waits for a database of this name, and has no data.
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
