/** The data source of a new database, if its spec names a backup. Without one, initdb creates the data. */
import type { Cluster } from '../../cluster/index.ts'
import { awaitsData, type Backup, type ManagedDatabase } from '../../crds/index.ts'
import { dataSourceOf, snapshotOf } from '../backup/source.ts'
import type { Instance } from '../objects/instance.ts'

/** `isClaimed`: a claim exists, which may have been filled before the snapshot was deleted. */
export async function withSource(cluster: Cluster, database: ManagedDatabase, isClaimed: boolean): Promise<Instance> {
  const { dataSource } = database.spec
  // A member knows snapshots only, not the backups that a spec names.
  if (dataSource === undefined || !awaitsData(database)) return database
  const key = { namespace: database.metadata.namespace, name: dataSource.backupName }
  const backup = await cluster.get('Backup', key)
  const version = backup?.status?.pgVersion
  if (version !== undefined && version !== database.spec.pgVersion) {
    const message = `the backup ${key.name} is of Postgres ${version}, not ${database.spec.pgVersion}`
    return { ...database, awaitsSource: { reason: 'OtherVersion', message } }
  }
  const region = backup?.status?.region
  if (region !== undefined && region !== database.spec.region) {
    const message = `the backup ${key.name} is in the region ${region}, not ${database.spec.region}`
    return { ...database, awaitsSource: { reason: 'OtherRegion', message } }
  }
  const found = dataSourceOf(backup, backup && (await snapshotOf(cluster, backup)))
  if ('source' in found) return { ...database, dataSource: found.source }
  const known = isClaimed && backup !== undefined ? knownOf(backup) : undefined
  return { ...database, ...(known === undefined ? {} : { dataSource: known }), awaitsSource: found.refused }
}

/** The source of data that are copied already, by what the backup reports. */
function knownOf({ spec, status }: Backup): Instance['dataSource'] {
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
