/**
 * Taking a database away: its branches first, then its Postgres (workload/plan/teardown.ts) and, unless they are to be
 * kept, its backups, and the finalizer when nothing is left.
 */
// @ts-nocheck

import { annotations, isLiveBranch } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { remove, type Teardown, teardown } from '../../workload/plan/teardown.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

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
      message: `the database has ${living.length} branches: delete them, or set the annotation ${annotations.force}=true to delete them with it`,
    }
  return undefined
}

/** They take their snapshots with them. */
function backupsStep({ database, backups }: Observed): Teardown | undefined {
  if (database.spec.deletion.keepBackups || backups.length === 0) return undefined
  return { actions: remove('Backup', backups), message: `deleting ${backups.length} backups`, progress: 85 }
}

export function teardownStep(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
): Omit<Teardown, 'actions'> & { actions: Action[] } {
  const { branches } = observed
  if (branches.length > 0)
    return { actions: remove('Branch', branches), message: `deleting ${branches.length} branches`, progress: 10 }
  const step = teardown(observed, owner, now, () => backupsStep(observed))
  return step.isDone ? { ...step, actions: [{ do: 'finish-deletion' }] } : step
}
