/** Checks `source_backup_id` of a new database: finds the backup, and checks that a database can be created from it. */
import type { Kinds } from '../../cluster/index.ts'
import type { PgVersion } from '../../crds/index.ts'
import { sizeInBytes } from '../../values/quantity.ts'
import { findOwned, readOwned } from '../caches.ts'
import { badRequest, notFound } from '../errors.ts'
import type { Writer } from '../writer.ts'
import type { CreateDatabaseInput } from './schema.ts'

/** `pgVersion`: undefined if the backup's version is no longer known. */
type NewSource = { backupName: string; pgVersion: PgVersion | undefined }

/** @throws ApiError 404 if the backup does not exist; 400 if it cannot be used */
export async function sourceOfNew(
  { context, account }: Writer,
  input: CreateDatabaseInput,
  storageSize: string | undefined,
): Promise<NewSource | undefined> {
  const { source_backup_id: backupId, pg_version: wanted, region } = input
  if (backupId === undefined) return undefined
  const { cluster, caches } = context
  const backup = await readOwned(cluster, 'Backup', account.namespace, backupId)
  if (backup === undefined) throw notFound('backup')
  const { metadata, spec, status } = backup
  const phase = metadata.deletionTimestamp === undefined ? (status?.phase ?? 'pending') : 'deleting'
  if (phase !== 'completed') throw badRequest(`source_backup_id: the backup is ${phase}: it must be completed`)
  const origin = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', account.namespace, spec.databaseId)
  // All regions share one archive.
  const backupRegion = spec.kind === 'durable' ? undefined : (status?.region ?? origin?.spec.region)
  if (backupRegion !== undefined && backupRegion !== region)
    throw badRequest(`region: the backup is in the region ${backupRegion}`)
  const pgVersion = status?.pgVersion ?? origin?.spec.pgVersion
  if (wanted !== undefined && pgVersion !== undefined && wanted !== pgVersion)
    throw badRequest(`pg_version: the backup has Postgres ${pgVersion}`)
  refuseSmaller(backup, storageSize)
  return { backupName: metadata.name, pgVersion }
}

function refuseSmaller({ status }: Kinds['Backup'], storageSize: string | undefined): void {
  const storage = sizeInBytes(storageSize)
  const needed = status?.sizeBytes
  if (needed !== undefined && storage !== undefined && storage < needed)
    throw badRequest(`size: the storage of ${storageSize} is smaller than the backup's volume of ${needed} bytes`)
}
