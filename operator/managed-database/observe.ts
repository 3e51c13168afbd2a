/**
 * Observes one database: the state that databases and branches share, and its backups, branches, restores and
 * connection Secrets.
 */

import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import {
  type Backup,
  type Branch,
  deletedDatabaseKey,
  isInForce,
  labels,
  type ManagedDatabase,
  readOperation,
  type Task,
} from '../../crds/index.ts'
import { ownBackups } from '../backup/observe.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Observer } from '../member/observe.ts'
import type { Instance } from '../objects/instance.ts'
import { restoresOf } from '../objects/restores.ts'
import { type SuspensionBlock, suspensionBlock } from '../objects/suspension-block.ts'
import { observeIdentity, observeOperation, observeTask } from '../owner/observe.ts'
import { type Observation, type OwnerObserver, observeInstance, type PriorFacts } from '../workload/observe.ts'
import { observeConnectionSecrets } from './connection-secrets.ts'
import { observeImport } from './import/facts.ts'
import { isAtRest, type Observed } from './observed.ts'
import { requestedRotations } from './operation.ts'
import { isFenced, restoringOf } from './restoring.ts'
import { withSource } from './source.ts'

export async function observe(
  observer: OwnerObserver,
  database: ManagedDatabase,
  keys: InstallationKeys,
  prior: PriorFacts,
): Promise<Observation<Observed>> {
  const { caches, cluster } = observer
  const { uid, labels: objectLabels } = database.metadata
  const id = objectLabels?.[labels.id]
  const others = id === undefined ? [] : caches.databases.byIndex('id', id).filter(other => other.metadata.uid !== uid)
  const { identity, owner, owned } = await observeIdentity(observer, database, others)
  const branches = await observeBranches(observer, database)
  const backups = ownBackups(caches, database)
  const restores = restoresOf(caches, database)
  const block = database.spec.suspended
    ? await observeSuspensionBlock(observer, database, backups, branches)
    : undefined
  const rotations = requestedRotations(database, observer.now())
  const sourced = await withSource(observer, database, owned.claims.length > 0)
  const adopting = { ...sourced, adoptsVolumes: true, ...undeleteSettings(database) }
  const instance = isFenced(database, restores) ? { ...adopting, isFenced: true } : adopting
  const services = { configs: database.spec.services, isCopy: false }
  const request = { instance, owner, isAtRest: isAtRest(database), suspensionBlock: block, rotations, owned, services }
  const { observed, ...secrets } = await observeInstance(observer, request, keys, prior)
  return {
    observed: {
      ...observed,
      database,
      identity,
      branches,
      backups,
      restoring: restoringOf(database, wanted => restores.find(({ metadata }) => metadata.name === wanted)),
      previous: { claims: await observeClaims(observer, database, owned.claims), restores },
      connectionSecrets: await observeConnectionSecrets(cluster, database, owned.secrets, {
        owner,
        passwords: secrets.passwords,
        keys,
      }),
      importing: await observeImport({ caches, cluster }, database, owner),
      ...(isDeleted(database) && id !== undefined
        ? { deletionRecord: caches.configMaps.get(deletedDatabaseKey(id)) }
        : {}),
      annotatedTask: await observeAnnotatedTask(observer, database),
      ...(await observeOperation(observer, database)),
    },
    ...secrets,
  }
}

/** The settings that an undeleted database takes over from the deleted one. */
function undeleteSettings({ spec }: ManagedDatabase): Pick<Instance, 'firstIncarnation' | 'preferredPort'> {
  const { undelete } = spec.dataSource ?? {}
  return undelete === undefined ? {} : { firstIncarnation: undelete.incarnation, preferredPort: undelete.port }
}

const isDeleted = ({ metadata }: ManagedDatabase): boolean => metadata.deletionTimestamp !== undefined

/** Adds the claims that the status names but the caches lack, because their labels were removed. */
async function observeClaims(
  { cluster }: Observer,
  { metadata: { namespace }, status }: ManagedDatabase,
  known: readonly PersistentVolumeClaim[],
): Promise<PersistentVolumeClaim[]> {
  const uids = new Set(known.map(({ metadata }) => metadata.uid))
  const missing = (status?.previous ?? []).filter(({ uid }) => !uids.has(uid))
  const found = await Promise.all(
    missing.map(async ({ claim, uid }) => {
      const live = await cluster.get('PersistentVolumeClaim', { namespace, name: claim })
      return live?.metadata.uid === uid ? [live] : []
    }),
  )
  return [...known, ...found.flat()]
}

/**
 * Returns the backup or branch that blocks a suspension. Before Postgres stops, this reads the cluster: a cache may
 * lack a backup or branch that the API accepted before the suspension.
 */
async function observeSuspensionBlock(
  { cluster }: Observer,
  database: ManagedDatabase,
  backups: readonly Backup[],
  branches: readonly Branch[],
): Promise<SuspensionBlock | undefined> {
  const known = suspensionBlock(backups, branches)
  if (known !== undefined || isAtRest(database)) return known
  const { namespace, name, labels: objectLabels } = database.metadata
  const isOwn = ({ spec }: Backup | Branch) =>
    spec.databaseName === name && (spec.databaseId === undefined || spec.databaseId === objectLabels?.[labels.id])
  const [listedBackups, listedBranches] = await Promise.all([
    cluster.list('Backup', { namespace }),
    cluster.list('Branch', { namespace }),
  ])
  return suspensionBlock(listedBackups.items.filter(isOwn), listedBranches.items.filter(isOwn))
}

/**
 * During a deletion, this reads the branches from the cluster: a cache may lack a new branch, which blocks the
 * deletion.
 */
async function observeBranches({ caches, cluster }: Observer, { metadata }: ManagedDatabase): Promise<Branch[]> {
  const { namespace = '', name, deletionTimestamp } = metadata
  if (deletionTimestamp === undefined) return caches.branches.byIndex('database', `${namespace}/${name}`)
  const { items } = await cluster.list('Branch', { namespace })
  return items.filter(({ spec }) => spec.databaseName === name)
}

/** Returns the Task of the operation that the API requested. Reads it from the cluster once for each operation. */
function observeAnnotatedTask(observer: Observer, database: ManagedDatabase): Promise<Task | undefined> {
  const annotated = readOperation(database)
  const isRequested = annotated?.taskId !== database.status?.operation?.taskId && !isInForce(database)
  return observeTask(observer, database.metadata.namespace, annotated?.taskId, isRequested)
}
