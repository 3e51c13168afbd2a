/** The restore that a database requests: its state, and whether it has ordered the current Postgres to stop. */
import {
  isOpenRestore,
  isRestoreRequested,
  type ManagedDatabase,
  type Restore,
  requestedRestore,
} from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'

export type RestoringFacts = { state: 'open' | 'failed' | 'completed'; reason: string; message: string }

/**
 * Returns the state of the requested restore, also after it failed or completed. Undefined if the database requests
 * none.
 */
export function restoringOf(
  database: ManagedDatabase,
  find: (name: string) => Restore | undefined,
): RestoringFacts | undefined {
  if (!isRestoreRequested(database)) return undefined
  const requested = requestedRestore(database)
  if (requested === undefined)
    return { state: 'failed', reason: 'RestoreUnclear', message: 'the annotation espalier.dev/restore is invalid' }
  const restore = find(requested.name)
  const progressing = conditionOf(restore?.status, 'Progressing')
  const { reason = 'Queued', message = 'the restore is being recorded' } = progressing ?? {}
  const phase = restore?.status?.phase
  const state = phase === 'failed' || phase === 'completed' ? phase : 'open'
  return { state, reason, message }
}

/** Whether a restore has ordered the current Postgres to stop, before it replaces the volume. */
export const isFenced = ({ status }: ManagedDatabase, restores: readonly Restore[]): boolean =>
  restores.some(
    restore =>
      isOpenRestore(restore) &&
      restore.status?.fencedAt !== undefined &&
      restore.status.previous?.incarnation === (status?.incarnation ?? 1),
  )
