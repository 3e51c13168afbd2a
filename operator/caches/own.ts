/** The informers of Espalier's own kinds. They have all objects, except ended Tasks. */
import {
  awaitsData,
  type Branch,
  branchPhase,
  canProve,
  childNames,
  isOpenRestore,
  labels,
  managedByEspalier,
  tenantNamespace,
} from '../../crds/index.ts'
import { databasesLabel } from '../access/bindings.ts'
import { sizeText } from '../member/pod/stateful-set.ts'
import { isOfInterest } from '../region/admission.ts'
import { trimBackup } from '../trim.ts'
import type { CacheSet } from './cache-set.ts'
import { one } from './indexes.ts'

const followDatabases = (set: CacheSet) =>
  set.follow('databases', 'ManagedDatabase', {
    indexes: {
      id: database => one(database.metadata.labels?.[labels.id]),
      uid: database => one(database.metadata.uid),
      /** The applied size and the requested size. */
      size: ({ spec, status }) => [...new Set([spec.size, ...one(status?.size)].map(sizeText))],
      region: ({ spec }) => [spec.region],
      /** The backup from which the database must still be created. */
      source: database =>
        awaitsData(database) ? [`${database.metadata.namespace}/${database.spec.dataSource?.backupName}`] : [],
      /** The region of a database that waits for a restart or is being restarted. */
      rollout: database => (isOfInterest(database) ? [database.spec.region] : []),
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

/** The Backup that a branch is created from. */
function sourceBackup({ metadata, spec, status }: Branch): string | undefined {
  const id = metadata.labels?.[labels.id]
  const { target } = spec
  if (target !== undefined) return status?.source?.backupName ?? target.backupName
  return id === undefined ? undefined : childNames.prebranch(id)
}

const followBranches = (set: CacheSet) =>
  set.follow('branches', 'Branch', {
    indexes: {
      id: branch => one(branch.metadata.labels?.[labels.id]),
      uid: branch => one(branch.metadata.uid),
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      size: ({ spec }) => [sizeText(spec.size)],
      region: ({ spec }) => [spec.region],
      /** As for databases. */
      rollout: branch => (isOfInterest(branch) ? [branch.spec.region] : []),
      /** The backup from which the branch must still be created. */
      source: branch =>
        branchPhase(branch) === 'creating'
          ? one(sourceBackup(branch)).map(name => `${branch.metadata.namespace}/${name}`)
          : [],
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

const followBackups = (set: CacheSet) =>
  set.follow('backups', 'Backup', {
    transform: trimBackup,
    indexes: {
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
      databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      task: ({ status }) => one(status?.taskId),
      verification: ({ status }) => (status?.verification === 'pending' ? ['pending'] : []),
      /** The namespace of a durable backup that can be restored for a restore proof. */
      proof: backup => (canProve(backup) ? one(backup.metadata.namespace) : []),
    },
  })

const followRestores = (set: CacheSet) =>
  set.follow('restores', 'Restore', {
    indexes: {
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
      databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      /** The backup of a restore that has not ended yet. */
      source: restore =>
        isOpenRestore(restore)
          ? [`${restore.metadata.namespace}/${restore.status?.recovery?.backupName ?? restore.spec.target.backupName}`]
          : [],
    },
  })

export const followOwnKinds = (set: CacheSet) => ({
  databases: followDatabases(set),
  branches: followBranches(set),
  backups: followBackups(set),
  restores: followRestores(set),
  /** Only Tasks that have not ended. There are ten times as many ended Tasks of a month. */
  tasks: set.follow('tasks', 'Task', {
    open: true,
    indexes: {
      subject: ({ metadata, spec }) => [`${metadata.namespace}/${spec.subject.kind}/${spec.subject.name}`],
    },
  }),
  sizes: set.follow('sizes', 'Size'),
  regions: set.follow('regions', 'Region'),
  tenants: set.follow('tenants', 'Tenant', { indexes: { namespace: ({ spec }) => [tenantNamespace(spec.tenantId)] } }),
})

/** The namespaces of tenants. */
export const followTenancy = (set: CacheSet) => ({
  namespaces: set.follow('namespaces', 'Namespace', {
    labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
  }),
  /** Namespaces of other owners that permit databases. */
  otherNamespaces: set.follow('other-namespaces', 'Namespace', { labels: { [databasesLabel]: 'true' } }),
  quotas: set.follow('quotas', 'ResourceQuota', {
    labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
  }),
})
