/** The informers of Espalier's own kinds: whole, but for Tasks that have ended. */
import {
  awaitsData,
  branchPhase,
  childNames,
  isOpenRestore,
  labels,
  managedByEspalier,
  tenantNamespace,
} from '../../crds/index.ts'
import { databasesLabel } from '../access/bindings.ts'
import { sizeText } from '../member/pod/stateful-set.ts'
import { isOfInterest } from '../region/admission.ts'
import { slimBackup } from '../slim.ts'
import type { CacheSet } from './cache-set.ts'
import { one } from './indexes.ts'

const followDatabases = (set: CacheSet) =>
  set.follow('databases', 'ManagedDatabase', {
    indexes: {
      id: database => one(database.metadata.labels?.[labels.id]),
      uid: database => one(database.metadata.uid),
      /** Those that have a size, and those that are to have it. */
      size: ({ spec, status }) => [...new Set([spec.size, ...one(status?.size)].map(sizeText))],
      region: ({ spec }) => [spec.region],
      /** The backup that it is still to be made of. */
      source: database =>
        awaitsData(database) ? [`${database.metadata.namespace}/${database.spec.dataSource?.backupName}`] : [],
      /** Of those that a restart waits for, or that are being restarted: their region. */
      rollout: database => (isOfInterest(database) ? [database.spec.region] : []),
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

const followBranches = (set: CacheSet) =>
  set.follow('branches', 'Branch', {
    indexes: {
      id: branch => one(branch.metadata.labels?.[labels.id]),
      uid: branch => one(branch.metadata.uid),
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      size: ({ spec }) => [sizeText(spec.size)],
      region: ({ spec }) => [spec.region],
      /** As of databases. */
      rollout: branch => (isOfInterest(branch) ? [branch.spec.region] : []),
      /** The backup that it is still to be made of. */
      source: branch =>
        branchPhase(branch) === 'creating'
          ? one(branch.metadata.labels?.[labels.id]).map(
              id => `${branch.metadata.namespace}/${childNames.prebranch(id)}`,
            )
          : [],
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

const followBackups = (set: CacheSet) =>
  set.follow('backups', 'Backup', {
    transform: slimBackup,
    indexes: {
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
      databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      task: ({ status }) => one(status?.taskId),
      verification: ({ status }) => (status?.verification === 'pending' ? ['pending'] : []),
    },
  })

const followRestores = (set: CacheSet) =>
  set.follow('restores', 'Restore', {
    indexes: {
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
      databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      /** Of those that have not ended: the backup that they restore from. */
      source: restore =>
        isOpenRestore(restore) ? [`${restore.metadata.namespace}/${restore.spec.target.backupName}`] : [],
    },
  })

export const followOwnKinds = (set: CacheSet) => ({
  databases: followDatabases(set),
  branches: followBranches(set),
  backups: followBackups(set),
  restores: followRestores(set),
  /** Those that have not ended: a month of the others is ten times as many. */
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

/** What a tenant has in the cluster. */
export const followTenancy = (set: CacheSet) => ({
  namespaces: set.follow('namespaces', 'Namespace', {
    labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
  }),
  /** Those of somebody else in which databases may be. */
  otherNamespaces: set.follow('other-namespaces', 'Namespace', { labels: { [databasesLabel]: 'true' } }),
  quotas: set.follow('quotas', 'ResourceQuota', {
    labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
  }),
})
