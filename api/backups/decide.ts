/** Whether a backup of a database can be asked for now: a pure function. It refuses by throwing ApiError. */
import type { Kinds } from '../../cluster/index.ts'
import { type Backup, type DatabasePhase, snapshotRefusal, verificationOf, visiblePhase } from '../../crds/index.ts'
import { badRequest, conflict, retryAfter } from '../errors.ts'

/** Most backups of one database that users keep: each holds storage until somebody deletes it. */
export const highestUserBackups = 100

type Asked = {
  kind: Backup['spec']['kind']
  database: Kinds['ManagedDatabase']
  region: Kinds['Region'] | undefined
  /** Those of this database that users asked for. */
  kept: number
}

/** Beside a change that is under way as well, as long as Postgres serves. */
export function serves(database: Kinds['ManagedDatabase']): boolean {
  const phase = visiblePhase(database)
  if (phase === 'available') return true
  const ready = database.status?.conditions?.find(({ type }) => type === 'Ready')
  return (phase === 'modifying' || phase === 'degraded') && ready?.status === 'True'
}

/** Whether one that does not serve now does so by itself after a while. */
export const comesToServe = (phase: DatabasePhase): boolean => phase !== 'failed' && phase !== 'deleting'

/** @throws ApiError 409 where there is nothing to verify, or not yet */
export function decideVerification(backup: Backup): void {
  const { phase = 'pending' } = backup.status ?? {}
  if (backup.metadata.deletionTimestamp !== undefined) throw conflict('the backup is being deleted')
  if (phase === 'failed') throw conflict('the backup failed: there is nothing to verify')
  if (phase !== 'completed')
    throw conflict(`the backup is ${phase}: one that is completed can be verified`, retryAfter.busy)
  if (verificationOf(backup) === 'pending') throw conflict('the backup is being verified already', retryAfter.busy)
}

/** @throws ApiError 400 where such a backup cannot be had, 409 where it cannot now */
export function decideBackup({ kind, database, region, kept }: Asked): void {
  if (kind === 'durable')
    throw badRequest(
      database.spec.backup.durable
        ? 'kind: durable backups are not available in this version'
        : 'kind: the durable tier is not enabled for this database',
    )
  const refusal = snapshotRefusal(database.spec.region, region)
  if (refusal !== undefined) throw badRequest(`kind: ${refusal.message}`)
  const phase = visiblePhase(database)
  if (phase === 'suspended' || phase === 'suspending')
    throw conflict(`the database is ${phase}: resume it, then take a backup`)
  if (!serves(database))
    throw conflict(
      `the database is ${phase}: a backup is taken of one that serves; its tasks say what holds it up`,
      comesToServe(phase) ? retryAfter.busy : undefined,
    )
  if (kept >= highestUserBackups)
    throw conflict(`the database has ${kept} backups that were asked for: delete one first`)
}
