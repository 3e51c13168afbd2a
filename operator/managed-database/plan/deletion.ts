/**
 * Taking a database away: its branches first, then its Postgres (workload/plan/teardown.ts) and, unless they are to be
 * kept, its backups, and the finalizer when nothing is left.
 */
import { annotations, isLiveBranch } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { remove, type Teardown, teardown } from '../../workload/plan/teardown.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

const counted = (count: number, what: string, whats: string): string =>
  count === 1 ? `a ${what}` : `${count} ${whats}`

/** Why a deletion that was asked for does not begin; the database goes on serving meanwhile. */
export function deletionBlock({ database, branches }: Observed): { reason: string; message: string } | undefined {
  if (database.spec.deletionProtection)
    return {
      reason: 'DeletionProtected',
      message: 'deletion protection is on: switch it off (spec.deletionProtection) for the deletion to go on',
    }
  const living = branches.filter(isLiveBranch)
  if (living.length > 0 && database.metadata.annotations?.[annotations.force] !== 'true')
    return {
      reason: 'HasBranches',
      message: `the database has ${counted(living.length, 'branch', 'branches')}: delete ${living.length === 1 ? 'it' : 'them'} first, or set the annotation ${annotations.force}=true`,
    }
  return undefined
}

/** They take their snapshots with them. */
function backupsStep({ database, backups }: Observed): Teardown | undefined {
  if (database.spec.deletion.keepBackups || backups.length === 0) return undefined
  return {
    actions: remove('Backup', backups),
    message: `deleting ${counted(backups.length, 'backup', 'backups')}`,
    progress: 85,
  }
}

/** Of a branch that was deleted there is a record for 30 days, which goes with its database. */
function branchesMessage(branches: Observed['branches']): string {
  const left = branches.filter(({ status }) => status?.phase !== 'deleted').length
  return left === 0 ? 'deleting what is on record of branches' : `deleting ${counted(left, 'branch', 'branches')}`
}

export function teardownStep(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
): Omit<Teardown, 'actions'> & { actions: Action[] } {
  const { branches } = observed
  if (branches.length > 0)
    return { actions: remove('Branch', branches), message: branchesMessage(branches), progress: 10 }
  const step = teardown(observed, owner, now, () => backupsStep(observed))
  return step.isDone ? { ...step, actions: [{ do: 'finish-deletion' }] } : step
}
