/** The data source of a new database whose spec names a backup. Without a backup, initdb creates the data. */
import type { Cluster } from '../../cluster/index.ts'
import { awaitsData, type Backup, labels, type ManagedDatabase, recoveryOfBackup } from '../../crds/index.ts'
import { recoverySource } from '../backup/recovery.ts'
import { type BackupSource, dataSourceOf, snapshotOf } from '../backup/source.ts'
import type { Instance } from '../objects/instance.ts'
import type { PodSettings } from '../pod-settings.ts'

type Sources = { cluster: Cluster; pods: Pick<PodSettings, 'archive'> }

/** `isClaimed`: a claim exists. It may already contain the data, even if the backup is now deleted. */
export async function withSource(
  { cluster, pods }: Sources,
  database: ManagedDatabase,
  isClaimed: boolean,
): Promise<Instance> {
  const { dataSource } = database.spec
  // The other code expects a snapshot or an archive as the source, so the Backup is replaced here.
  if (dataSource === undefined || !awaitsData(database)) return database
  const key = { namespace: database.metadata.namespace, name: dataSource.backupName }
  const backup = await cluster.get('Backup', key)
  const version = backup?.status?.pgVersion
  if (version !== undefined && version !== database.spec.pgVersion) {
    const message = `the backup ${key.name} has data of Postgres ${version}, not ${database.spec.pgVersion}`
    return { ...database, awaitsSource: { reason: 'OtherVersion', message } }
  }
  if (backup?.spec.kind === 'durable') {
    const found = archivedSource(database, backup, pods, isClaimed)
    return 'source' in found ? { ...database, dataSource: found.source } : { ...database, awaitsSource: found.refused }
  }
  const region = backup?.status?.region
  if (region !== undefined && region !== database.spec.region) {
    const message = `the backup ${key.name} is in the region ${region}, not ${database.spec.region}`
    return { ...database, awaitsSource: { reason: 'OtherRegion', message } }
  }
  const found = dataSourceOf(backup, backup && (await snapshotOf(cluster, backup)))
  if ('source' in found) return { ...database, dataSource: found.source }
  const known = isClaimed && backup !== undefined ? existingVolumeSource(backup) : undefined
  return { ...database, ...(known === undefined ? {} : { dataSource: known }), awaitsSource: found.refused }
}

/**
 * A durable backup can be restored in every region. A backup that is being deleted is accepted only if the claim
 * already exists.
 */
function archivedSource(
  { metadata: { labels: objectLabels }, spec: { dataSource } }: ManagedDatabase,
  { metadata: { deletionTimestamp, ...metadata }, ...backup }: Backup,
  pods: Sources['pods'],
  isClaimed: boolean,
): BackupSource {
  const record = recoveryOfBackup({
    ...backup,
    metadata: deletionTimestamp === undefined || isClaimed ? metadata : { ...metadata, deletionTimestamp },
  })
  if (record === undefined)
    return {
      refused: { reason: 'BackupNotCompleted', message: `the backup ${metadata.name} is not completed` },
    }
  const { databaseId } = backup.spec
  const undelete = dataSource?.undelete
  if (undelete === undefined) return recoverySource({ databaseId, target: { backupName: metadata.name } }, record, pods)
  if (databaseId !== objectLabels?.[labels.id])
    return { refused: { reason: 'OtherDatabase', message: `the backup ${metadata.name} belongs to another database` } }
  const { through, time, lsn, pointName } = undelete
  const isMoment = [time, lsn, pointName].some(value => value !== undefined)
  if (through === undefined && !isMoment)
    return recoverySource({ databaseId, target: { backupName: metadata.name } }, record, pods)
  return recoverySource(
    { databaseId, target: isMoment ? { time, lsn, pointName } : endOfWal },
    { ...record, through },
    pods,
  )
}

/** Later than any commit, so that Postgres replays all archived WAL. */
const endOfWal = { time: '9999-12-31T23:59:59Z' }

/** The source of a volume that may already contain the data, from the backup's status. The snapshot may be deleted. */
function existingVolumeSource({ spec, status }: Backup): Instance['dataSource'] {
  if (status?.systemIdentifier === undefined) return undefined
  const id = spec.sourceBranch?.id ?? spec.databaseId
  return {
    kind: 'snapshot',
    snapshot: status.snapshotName ?? '',
    id,
    systemIdentifier: status.systemIdentifier,
    bytes: 0,
  }
}
