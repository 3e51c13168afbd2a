/** The record of a deleted database: how to restore it, until when, and what the archive contains. Pure. */
import type { AnyObject, Draft } from '../../../cluster/index.ts'
import {
  apiVersion,
  type Backup,
  canonicalJson,
  type DeletedDatabase,
  deletedDatabaseComponent,
  deletedDatabaseKey,
  deletedDatabaseManifest,
  deletedDatabaseRecord,
  labels,
  type ManagedDatabase,
  readDeletedDatabase,
  recoveryWindow,
  specOfDeleted,
} from '../../../crds/index.ts'
import { serviceKeysComponent } from '../../../sealing/service-keys.ts'
import { timestamp } from '../../../values/time.ts'
import { windowMs } from '../../backup/schedule/retention.ts'
import { type Component, childLabels } from '../../objects/ownership.ts'
import type { Observed } from '../observed.ts'

type Facts = Pick<Observed, 'database' | 'backups' | 'podSettings' | 'deletionRecord'>
type Recorded = { deleted: DeletedDatabase; spec: ManagedDatabase['spec'] | undefined }

const isDurable = ({ spec }: Backup): boolean => spec.kind === 'durable'

/** Returns the existing record if this database is an undelete that failed before it had a volume. */
function failedUndelete({ database, deletionRecord }: Facts): Recorded | undefined {
  const { metadata, spec, status } = database
  if (spec.dataSource?.undelete === undefined || status?.volume !== undefined || spec.deletion.purge) return undefined
  const before = deletionRecord && readDeletedDatabase(deletionRecord)
  const beforeSpec = deletionRecord && specOfDeleted(deletionRecord)
  if (before === undefined || before.uid === metadata.uid) return undefined
  // The volume number counts even without a recorded volume: Postgres may already have archived WAL under it.
  const incarnation = Math.max(before.incarnation, status?.incarnation ?? 0)
  return {
    deleted: { ...before, uid: metadata.uid ?? '', incarnation },
    spec: beforeSpec && after(beforeSpec, incarnation),
  }
}

/** The same spec, with a higher volume number to restore to. */
function after({ dataSource, ...spec }: ManagedDatabase['spec'], incarnation: number): ManagedDatabase['spec'] {
  const undelete = dataSource?.undelete && { ...dataSource.undelete, incarnation: incarnation + 1 }
  return { ...spec, ...(dataSource && undelete ? { dataSource: { ...dataSource, undelete } } : {}) }
}

/** Undefined if the database never archived anything. An installation may have lost its archive's settings meanwhile. */
function recordOf(observed: Facts): Recorded | undefined {
  const { database, backups, podSettings } = observed
  const { metadata, spec, status } = database
  const { name, namespace = '', uid = '', deletionTimestamp: deletedAt } = metadata
  const id = metadata.labels?.[labels.id]
  const requested = spec.dataSource?.undelete?.incarnation
  const incarnation = status?.incarnation ?? (requested === undefined ? undefined : requested - 1)
  if (id === undefined || deletedAt === undefined) return undefined
  const failed = failedUndelete(observed)
  if (failed !== undefined) return failed
  const hasArchive = podSettings.archive !== undefined
  // A durable backup has an incarnation before its first object is sent; one that was refused without an archive has none.
  const isArchived = (backup: Backup) => isDurable(backup) && (hasArchive || backup.status?.incarnation !== undefined)
  const hasArchived = (hasArchive && spec.backup.durable) || status?.archive !== undefined || backups.some(isArchived)
  if (!hasArchived || incarnation === undefined) return undefined
  const { keepBackups: keepsBackups, purge } = spec.deletion
  const deleted = { id, name, namespace, uid, deletedAt, incarnation, keepsBackups }
  const canRestore = spec.backup.durable && !purge && recoveryWindow(database, backups).spans.length > 0
  if (!canRestore) return { deleted, spec: undefined }
  const keptUntil = timestamp(Date.parse(deletedAt) + windowMs(spec.backup))
  const archive = status?.archive
  return {
    deleted: { ...deleted, keptUntil, ...(archive === undefined ? {} : { archive }) },
    spec: undeleteSpec(observed),
  }
}

/** Returns the spec that restores the deleted database to the end of its archived WAL. */
function undeleteSpec({ database, backups }: Facts): ManagedDatabase['spec'] | undefined {
  const { spec, status } = database
  const span = recoveryWindow(database, backups).spans.at(-1)
  const base = span?.bases.at(-1)
  if (span === undefined || base === undefined) return undefined
  const { import: _, dataSource: __, ...rest } = spec
  const port = status?.endpoint?.port
  const undelete = {
    ...{ incarnation: (status?.incarnation ?? 1) + 1, through: span.through },
    ...(port === undefined ? {} : { port }),
  }
  return {
    ...rest,
    suspended: false,
    deletionProtection: false,
    deletion: { keepBackups: false },
    dataSource: { backupName: base.backupName, undelete },
  }
}

function draftOf({ deleted, spec }: Recorded): Draft<'ConfigMap'> {
  const { id, name, namespace } = deleted
  const recordLabels = childLabels({ id, namespace }, deletedDatabaseComponent)
  const { [labels.database]: _, [labels.component]: __, ...common } = recordLabels
  const metadata = { name, namespace, labels: { ...common, [labels.id]: id } }
  const manifest = spec && { apiVersion, kind: 'ManagedDatabase', metadata, spec }
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...deletedDatabaseKey(id), labels: recordLabels },
    data: {
      [deletedDatabaseRecord]: canonicalJson(deleted),
      ...(manifest === undefined ? {} : { [deletedDatabaseManifest]: canonicalJson(manifest) }),
    },
  }
}

/** Undefined if this deletion is recorded. The record is replaced only if `spec.deletion.purge` was set later. */
export function dueDeletionRecord(observed: Facts): Draft<'ConfigMap'> | undefined {
  const recorded = recordOf(observed)
  const { database, deletionRecord } = observed
  const before = deletionRecord && readDeletedDatabase(deletionRecord)
  const isRetained = before?.keptUntil !== undefined && !database.spec.deletion.purge
  if (
    recorded === undefined ||
    (before?.uid === database.metadata.uid && (isRetained || before?.keptUntil === undefined))
  )
    return undefined
  return draftOf(recorded)
}

/** Whether the record says that the database can be restored. If so, the objects needed for that are kept. */
const canRestore = ({ database, deletionRecord }: Pick<Facts, 'database' | 'deletionRecord'>): boolean => {
  const deleted = deletionRecord && readDeletedDatabase(deletionRecord)
  return deleted?.uid === database.metadata.uid && deleted?.keptUntil !== undefined
}

/** Secrets with the sealed passwords, service tokens and service keys. */
const retainedComponents: ReadonlySet<string | undefined> = new Set([
  ...(['credentials', 'service-token'] satisfies Component[]),
  serviceKeysComponent,
])

export function outlivesDatabase(observed: Pick<Facts, 'database' | 'deletionRecord'>, object: AnyObject): boolean {
  if (!canRestore(observed)) return false
  if (object.kind === 'Backup') return isDurable(object as Backup) && isComplete(object as Backup)
  return retainedComponents.has(object.metadata.labels?.[labels.component])
}

const isComplete = ({ metadata, status }: Backup): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase === 'completed'
