/** The state of the restore that a database requests: what it waits for, and whether it fences the database. */
import {
  isOpenRestore,
  isRestoreRequested,
  type ManagedDatabase,
  type Restore,
  requestedRestore,
} from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'

export type RestoringFacts = { state: 'open' | 'failed' | 'completed'; reason: string; message: string }

/** The restore that a database requests; undefined if it requests none, or if that has ended. */
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

/** Whether a restore is about to replace the database's volume. */
export const isFenced = ({ status }: ManagedDatabase, restores: readonly Restore[]): boolean =>
  restores.some(
    restore =>
      isOpenRestore(restore) &&
      restore.status?.fencedAt !== undefined &&
      restore.status.previous?.incarnation === (status?.incarnation ?? 1),
  )
