/** Gathers what a pass needs to know of one backup: from the caches, and where one could mislead from the cluster itself. */
import { type Cluster, KindNotServedError, type ObjectKey, type VolumeSnapshot } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import {
  annotatedOperation,
  type Backup,
  type Branch,
  childNames,
  isEnded,
  isOpenRestore,
  labels,
  type ManagedDatabase,
  memberOfClaim,
} from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { stopOf } from '../member/pod/lock.ts'
import { targetAt } from '../member/postgres/target.ts'
import { derivedId } from '../objects/derived-id.ts'
import { isTakenFor, takenBy } from '../objects/operator-backups.ts'
import { placeOf } from '../objects/order.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { PostgresTarget } from '../postgres/administrator.ts'
import { findTask } from '../task/find.ts'
import type { Checkpoints } from './checkpoints.ts'
import { idOf, isRelabelled } from './id.ts'
import type { AnchorFacts, Observed, SnapshotFacts } from './observed.ts'
import { awaitsRecord } from './schedule/recorded.ts'
import { snapshotFacts } from './snapshot.ts'
import { verificationFacts } from './verification/observe.ts'
import type { Turns } from './verification/turns.ts'

type Observer = {
  caches: Caches
  cluster: Cluster
  checkpoints: Checkpoints
  turns: Pick<Turns, 'isTurn'>
  keys: () => InstallationKeys
  now: () => number
}

/** What a pass knows, and how the source's Postgres is reached. */
export type Observation = { observed: Observed; target: PostgresTarget | undefined }

/** Neither completed nor failed, and not on its way out. */
export const isUnderWay = ({ metadata, status }: Backup): boolean =>
  metadata.deletionTimestamp === undefined && status?.finishedAt === undefined && status?.phase !== 'failed'

/** The backups of one database, by their `spec`. */
export const backupsOf = (caches: Pick<Caches, 'backups'>, namespace: string | undefined, databaseId: string) =>
  caches.backups.byIndex('database', `${namespace}/${databaseId}`)

/** The backups of this database. Another database with its id has its own. */
export const ownBackups = (caches: Pick<Caches, 'backups'>, { metadata }: ManagedDatabase): Backup[] =>
  backupsOf(caches, metadata.namespace, metadata.labels?.[labels.id] ?? '').filter(
    ({ spec }) => spec.databaseName === metadata.name,
  )

export async function observe(
  { caches, cluster, checkpoints, turns, keys, now }: Observer,
  backup: Backup,
): Promise<Observation> {
  const { uid = '' } = backup.metadata
  const id = idOf(backup)
  const snapshot = await snapshotOf(caches, cluster, backup, id)
  const isAsked = isUnderWay(backup) || backup.status?.verification === 'pending'
  const database = isAsked ? await sourceOf(caches, cluster, backup) : undefined
  const target = database && targetOf(caches, database, keys().authority)
  const taskId = taskIdOf(backup)
  return {
    target,
    observed: {
      backup,
      id,
      source: database && {
        database,
        region: caches.regions.get({ name: database.spec.region }),
        isReachable: target !== undefined,
      },
      snapshots: caches.snapshots.served,
      snapshotsAskedAt: caches.snapshots.askedAt,
      snapshot,
      usedBy: usedBy(caches, backup),
      awaitsRecord: isHeldForRecord(caches, backup, now()),
      anchorOf:
        isUnderWay(backup) && database !== undefined ? await anchorOf(caches, cluster, backup, database) : undefined,
      ahead: isUnderWay(backup) ? aheadOf(caches, backup) : undefined,
      checkpoint: checkpoints.facts({ key: keyOf(backup), uid }, target),
      claimUid: await claimUidOf(cluster, backup, snapshot),
      verification: await verificationFacts(caches, cluster, backup, id, database?.spec, turns.isTurn),
      taskId,
      isTaskOver: taskId !== undefined && (await isTaskOver(caches, cluster, backup)),
    },
  }
}

/** Of a backup that somebody asked for: the Task that the API names, or one of our own. */
function taskIdOf(backup: Backup): string | undefined {
  if (backup.status?.taskId !== undefined || backup.spec.purpose !== 'user') return backup.status?.taskId
  return annotatedOperation(backup)?.taskId ?? derivedId(`${backup.metadata.uid}/backup`)
}

/** Only where a status waits for that. */
async function isTaskOver(caches: Caches, cluster: Cluster, { metadata, status }: Backup): Promise<boolean> {
  if (status?.taskId === undefined || status.finishedAt === undefined) return false
  const task = await findTask({ caches, cluster }, metadata.namespace, status.taskId)
  return task !== undefined && isEnded(task)
}

/**
 * What has ended is believed by the cache, as long as that says nothing that would be acted upon. Without an id, or where
 * nobody knows yet whether there are snapshots, nothing is known.
 */
async function snapshotOf(
  { snapshots }: Caches,
  cluster: Cluster,
  backup: Backup,
  id: string | undefined,
): Promise<SnapshotFacts | 'absent' | 'unknown'> {
  const isLeaving = backup.metadata.deletionTimestamp !== undefined
  if (id === undefined) return isLeaving ? 'absent' : 'unknown'
  const { served } = snapshots
  // No snapshot can be left of a kind that is gone; one that completed waits for the kind to come back.
  if (served === 'absent') return backup.status?.phase === 'completed' && !isLeaving ? 'unknown' : 'absent'
  if (served === 'unknown') return 'unknown'
  const key = { namespace: backup.metadata.namespace, name: childNames.snapshot(id) }
  if (isRelabelled(backup, id) && !isLeaving) return 'unknown'
  const cached = isLeaving ? undefined : snapshots.get(key)
  const isCleared = cached === undefined && backup.status?.phase === 'failed' && !isLeaving
  const found = cached ?? (isCleared ? undefined : await live(cluster, key))
  return found === undefined ? 'absent' : snapshotFacts(backup, id, found)
}

async function live(
  cluster: Cluster,
  key: { namespace: string | undefined; name: string },
): Promise<VolumeSnapshot | undefined> {
  try {
    return await cluster.get('VolumeSnapshot', key)
  } catch (error) {
    if (error instanceof KindNotServedError) return undefined
    throw error
  }
}

/** The database that it is of, or the branch. */
async function sourceOf(
  caches: Caches,
  cluster: Cluster,
  { metadata: { namespace }, spec: { databaseName, databaseId, sourceBranch } }: Backup,
): Promise<ManagedDatabase | Branch | undefined> {
  return sourceBranch === undefined
    ? namedSo(databaseId, { namespace, name: databaseName }, caches.databases, key =>
        cluster.get('ManagedDatabase', key),
      )
    : namedSo(sourceBranch.id, { namespace, name: sourceBranch.name }, caches.branches, key =>
        cluster.get('Branch', key),
      )
}

/** What has this name, where it has this id: from the cache, else from the cluster. */
async function namedSo<T extends ManagedDatabase | Branch>(
  id: string,
  key: ObjectKey,
  cache: { get(key: ObjectKey): T | undefined },
  live: (key: ObjectKey) => Promise<T | undefined>,
): Promise<T | undefined> {
  const isIt = (found: T | undefined) => found?.metadata.labels?.[labels.id] === id
  const cached = cache.get(key)
  if (isIt(cached)) return cached
  const found = await live(key)
  return isIt(found) ? found : undefined
}

function targetOf(
  caches: Caches,
  { kind, metadata, status }: ManagedDatabase | Branch,
  authority: InstallationKeys['authority'],
): PostgresTarget | undefined {
  const id = metadata.labels?.[labels.id]
  if (id === undefined || status?.incarnation === undefined || authority === undefined) return undefined
  const { namespace } = metadata
  const pod = caches.pods.get({
    namespace,
    name: childNames.pod(id, status.incarnation, memberOfClaim(status.volume?.claim)),
  })
  if (pod?.status?.podIP === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined
  return targetAt(ownerOf({ kind, metadata }, id), pod.status.podIP, authority)
}

/** What has not copied its data yet. */
function usedBy({ databases, restores }: Caches, backup: Backup): string | undefined {
  const [database] = databases.byIndex('source', keyOf(backup))
  if (database !== undefined) return `the database ${database.metadata.name}`
  const restore = restores.byIndex('source', keyOf(backup)).find(({ status }) => status?.verifiedAt === undefined)
  return restore && `the restore ${restore.metadata.name}`
}

function isHeldForRecord({ databases }: Caches, backup: Backup, now: number): boolean {
  const { namespace, deletionTimestamp } = backup.metadata
  if (deletionTimestamp === undefined) return false
  return awaitsRecord(backup, databases.get({ namespace, name: backup.spec.databaseName }), now)
}

/** How the restore stands that has this backup for its anchor. */
async function anchorOf(
  { restores }: Caches,
  cluster: Cluster,
  backup: Backup,
  { status }: ManagedDatabase | Branch,
): Promise<AnchorFacts | undefined> {
  const {
    metadata: { namespace = '', name },
    spec,
  } = backup
  const restore = restores
    .byIndex('database', `${namespace}/${spec.databaseId}`)
    .find(restore => restore.status?.anchor === name && isTakenFor(backup, takenBy(restore, 'prerestore')))
  if (restore === undefined) return undefined
  const { previous, fencedAt } = restore.status ?? {}
  if (!isOpenRestore(restore)) return { state: 'over' }
  if (fencedAt === undefined || previous === undefined) return { state: 'running' }
  const { claim = '', uid: claimUid = '', incarnation } = previous
  const of = { namespace, id: spec.databaseId, incarnation, number: memberOfClaim(claim) }
  if ((await stopOf(cluster, of, restore)) !== 'locked') return { state: 'stopping' }
  const found = await cluster.get('PersistentVolumeClaim', { namespace, name: claim })
  const systemIdentifier = status?.volume?.systemIdentifier ?? ''
  return { state: 'stopped', claim, claimUid, systemIdentifier, isThere: found?.metadata.uid === claimUid }
}

/** Waits until its restore stops Postgres, and the restore waits for backups of branches: if they waited for it, none would go on. */
const awaitsStop = ({ spec, status }: Backup): boolean => spec.purpose === 'prerestore' && status?.phase !== 'running'

/** One that runs comes first; of those that wait, who was asked for first. */
function aheadOf(caches: Caches, backup: Backup): string | undefined {
  const { namespace, name } = backup.metadata
  const { databaseId, sourceBranch } = backup.spec
  const others = backupsOf(caches, namespace, databaseId).filter(
    other =>
      other.metadata.name !== name &&
      isUnderWay(other) &&
      !awaitsStop(other) &&
      other.spec.sourceBranch?.id === sourceBranch?.id,
  )
  const first = others.find(other => other.status?.phase === 'running' || placeOf(other) < placeOf(backup))
  return first?.metadata.name
}

/** Of the claim that a snapshot was made of, as long as that is not over. */
async function claimUidOf(
  cluster: Cluster,
  backup: Backup,
  snapshot: SnapshotFacts | 'absent' | 'unknown',
): Promise<string | undefined> {
  if (typeof snapshot !== 'object' || snapshot.cutOf === undefined || !isUnderWay(backup)) return undefined
  const { namespace } = backup.metadata
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: snapshot.cutOf.claim })
  return claim?.metadata.uid
}
