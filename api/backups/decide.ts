/** Decides whether a backup of a database can be requested now. Refuses by throwing ApiError. */
import type { Kinds } from '../../cluster/index.ts'
import { type Backup, type DatabasePhase, snapshotRefusal, verificationOf, visiblePhase } from '../../crds/index.ts'
import { badRequest, conflict, retryAfter } from '../errors.ts'

/** The maximum number of a database's backups that users requested. Each backup uses storage until it is deleted. */
export const highestUserBackups = 100

type BackupRequest = {
  kind: Backup['spec']['kind']
  database: Kinds['ManagedDatabase']
  region: Kinds['Region'] | undefined
  /** The number of this database's backups that users requested. */
  existing: number
}

/** Whether Postgres serves. Then backups are allowed even during another operation. */
export function serves(database: Kinds['ManagedDatabase']): boolean {
  const phase = visiblePhase(database)
  if (phase === 'available') return true
  const ready = database.status?.conditions?.find(({ type }) => type === 'Ready')
  return (phase === 'modifying' || phase === 'degraded') && ready?.status === 'True'
}

/** Whether a database that does not serve now will serve later without user action. */
export const comesToServe = (phase: DatabasePhase): boolean => phase !== 'failed' && phase !== 'deleting'

/** @throws ApiError 409 if the backup cannot be verified now */
export function decideVerification(backup: Backup): void {
  const { phase = 'pending' } = backup.status ?? {}
  if (backup.metadata.deletionTimestamp !== undefined) throw conflict('the backup is being deleted')
  if (phase === 'failed') throw conflict('the backup failed: there is nothing to verify')
  if (phase !== 'completed')
    throw conflict(`the backup is ${phase}: only a completed backup can be verified`, retryAfter.busy)
  if (verificationOf(backup) === 'pending') throw conflict('the backup is already being verified', retryAfter.busy)
}

/** @throws ApiError 400 without the durable tier; 409 before the restart that starts archiving */
function requireDurableTier({ spec, status }: Kinds['ManagedDatabase']): void {
  if (!spec.backup.durable) throw badRequest('kind: the durable tier is not enabled for this database')
  const reason = status?.conditions?.find(({ type }) => type === 'Archiving')?.reason
  if (reason === 'NoArchive') throw badRequest('kind: this installation has no archive for durable backups')
  if (reason === 'RestartPending')
    throw conflict('the database starts archiving at its next restart: restart it, then take a durable backup')
}

/** @throws ApiError 400 if such a backup is not possible; 409 if it is not possible now */
export function decideBackup({ kind, database, region, existing }: BackupRequest): void {
  if (kind === 'durable') requireDurableTier(database)
  const refusal = kind === 'hot' ? snapshotRefusal(database.spec.region, region) : undefined
  if (refusal !== undefined) throw badRequest(`kind: ${refusal.message}`)
  const phase = visiblePhase(database)
  if (phase === 'suspended' || phase === 'suspending')
    throw conflict(`the database is ${phase}: resume it, then take a backup`)
  if (!serves(database))
    throw conflict(
      `the database is ${phase}: a backup needs a running database; its tasks show the reason`,
      comesToServe(phase) ? retryAfter.busy : undefined,
    )
  if (existing >= highestUserBackups)
    throw conflict(`the database has ${existing} backups that users requested: delete one first`)
}
