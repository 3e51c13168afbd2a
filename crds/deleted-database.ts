/**
 * A deleted database that can be restored, or that still has data in the archive. It is a ConfigMap in the
 * installation's namespace. No tenant can write there, so no tenant can make the operator delete another tenant's
 * archive. The ConfigMap contains no secret.
 */
import { z } from 'zod'
import { timestamp, uuid } from './fields.ts'
import { type ManagedDatabaseSpec, managedDatabase } from './managed-database.ts'
import { annotations, systemNamespace } from './metadata.ts'

export const deletedDatabaseComponent = 'deleted-database'
/** The ConfigMap key of the record, as JSON. */
export const deletedDatabaseRecord = 'record.json'
/** The ConfigMap key of the ManagedDatabase that restores the database; absent if it cannot be restored. */
export const deletedDatabaseManifest = 'manifest.json'

export const deletedDatabaseKey = (id: string): { namespace: string; name: string } => ({
  namespace: systemNamespace,
  name: `deleted-${id}`,
})

const record = z.object({
  id: uuid,
  name: z.string().min(1).max(253),
  namespace: z.string().min(1).max(63),
  /** The uid of the deleted object. */
  uid: z.string().min(1).max(64),
  deletedAt: timestamp,
  /** The database can be restored until this time. If absent, it cannot be restored. */
  keptUntil: timestamp.optional(),
  /** The archive has the volumes with the numbers from 1 to this number. */
  incarnation: z.int().min(1).max(10_000),
  /** Whether its durable Backups are kept after the deletion. */
  keepsBackups: z.boolean(),
  /** The last `status.archive` of the database. */
  archive: z.object({ incarnation: z.int().min(1), archived: z.string().max(17), archivedAt: timestamp }).optional(),
})
export type DeletedDatabase = z.output<typeof record>

type Stored = {
  metadata: { name: string; annotations?: Record<string, string> | undefined }
  data?: Record<string, string> | undefined
}

const parsed = (text: string | undefined): unknown => {
  try {
    return JSON.parse(text ?? '')
  } catch {
    return undefined
  }
}

/** @returns undefined if the ConfigMap is not a valid record, or its name differs from the name in the record */
export function readDeletedDatabase({ metadata, data }: Stored): DeletedDatabase | undefined {
  const found = record.safeParse(parsed(data?.[deletedDatabaseRecord])).data
  return found !== undefined && deletedDatabaseKey(found.id).name === metadata.name ? found : undefined
}

/** The spec that restores the database. Undefined if it cannot be restored, or if a newer release wrote the record. */
export const specOfDeleted = ({ data }: Stored): ManagedDatabaseSpec | undefined =>
  z.object({ spec: managedDatabase.spec }).safeParse(parsed(data?.[deletedDatabaseManifest])).data?.spec

/** Whether a user requested the immediate deletion of everything of the database. */
export const isPurged = ({ metadata }: Stored): boolean => metadata.annotations?.[annotations.purge] === 'true'
