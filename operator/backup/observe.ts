/** Observes one backup. Reads the caches, and the cluster itself where an outdated cache could cause a wrong action. */
import { type Cluster, KindNotServedError, type ObjectKey, type VolumeSnapshot } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import {
  annotatedOperation,
  type Backup,
  type Branch,
  canProve,
  childNames,
  isEnded,
  isOpenRestore,
  labels,
  type ManagedDatabase,
  memberOfClaim,
  type Restore,
} from '../../crds/index.ts'
import type { AgentTarget, ArchiveWays } from '../archive/ways.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { stopOf } from '../member/pod/lock.ts'
import { targetAt } from '../member/postgres/target.ts'
import { derivedId } from '../objects/derived-id.ts'
import { isTakenFor, restoreNameOf, takenBy } from '../objects/operator-backups.ts'
import { orderOf } from '../objects/order.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { PostgresTarget } from '../postgres/administrator.ts'
import { findTask } from '../task/find.ts'
import type { Checkpoints } from './checkpoints.ts'
import { observeDurable } from './durable.ts'
import { idOf, isRelabelled } from './id.ts'
import type { Observed, PrerestoreFacts, SnapshotFacts } from './observed.ts'
import { awaitsRecord } from './schedule/recorded.ts'
import { snapshotFacts } from './snapshot.ts'
import { verificationFacts } from './verification/observe.ts'
import { type ProofSchedule, proofSchedule } from './verification/proof.ts'
import type { VerificationSlots } from './verification/slots.ts'

type Observer = {
  caches: Caches
  cluster: Cluster
  checkpoints: Checkpoints
  slots: Pick<VerificationSlots, 'hasSlot'>
  keys: () => InstallationKeys
  archive: () => ArchiveWays | undefined
  now: () => number
}

/** The observed state, and the addresses of the source's Postgres and its agent. */
export type Observation = {
  observed: Observed
  target: PostgresTarget | undefined
  /** The agent of the source's Postgres, for a durable backup. */
  agent: AgentTarget | undefined
}

/** Neither completed nor failed, and not being deleted. */
export const isUnderWay = ({ metadata, status }: Backup): boolean =>
  metadata.deletionTimestamp === undefined && status?.finishedAt === undefined && status?.phase !== 'failed'

/** The backups that name this database id in their `spec`. */
export const backupsOf = (caches: Pick<Caches, 'backups'>, namespace: string | undefined, databaseId: string) =>
  caches.backups.byIndex('database', `${namespace}/${databaseId}`)

/** The backups of this database, without those of another database with the same id. */
export const ownBackups = (caches: Pick<Caches, 'backups'>, { metadata }: ManagedDatabase): Backup[] =>
  backupsOf(caches, metadata.namespace, metadata.labels?.[labels.id] ?? '').filter(
    ({ spec }) => spec.databaseName === metadata.name,
  )

export async function observe(
  { caches, cluster, checkpoints, slots, keys, archive, now }: Observer,
  backup: Backup,
  signal: AbortSignal,
): Promise<Observation> {
  const { uid = '' } = backup.metadata
  const id = idOf(backup)
  const snapshot = await snapshotOf(caches, cluster, backup, id)
  const isNeeded = isUnderWay(backup) || backup.status?.verification === 'pending' || remainsInArchive(backup)
  const database = isNeeded ? await sourceOf(caches, cluster, backup) : undefined
  const target = database && targetOf(caches, database, keys().authority)
  const taskId = taskIdOf(backup)
  const durable = await observeDurable({ caches, keys, archive }, backup, id, database, signal)
  return {
    target,
    agent: durable?.target,
    observed: {
      backup,
      id,
      source: database && {
        database,
        region: caches.regions.get({ name: database.spec.region }),
        isReachable: target !== undefined,
      },
      snapshots: caches.snapshots.served,
      snapshotsQueriedAt: caches.snapshots.queriedAt,
      snapshot,
      usedBy: usedBy(caches, backup),
      awaitsRecord: isDelayedForRecord(caches, backup, now()),
      prerestoreOf:
        isUnderWay(backup) && database !== undefined
          ? await prerestoreOf(caches, cluster, backup, database)
          : undefined,
      blockedBy: isUnderWay(backup) ? blockingBackup(caches, backup) : undefined,
      checkpoint: checkpoints.facts({ key: keyOf(backup), uid }, target),
      claimUid: await claimUidOf(cluster, backup, snapshot),
      proof: proofOf(caches, backup, now()),
      verification: await verificationFacts(caches, cluster, backup, id, database?.spec, slots.hasSlot),
      taskId,
      ...(durable === undefined ? {} : { durable: durable.facts }),
      hasTaskEnded: taskId !== undefined && (await hasTaskEnded(caches, cluster, backup)),
    },
  }
}

/**
 * The backups that can be restored to test the archive: completed durable backups of databases that do not disable
 * verification.
 */
export const proofCandidates = (
  { backups, databases }: Pick<Caches, 'backups' | 'databases'>,
  namespace?: string,
): Backup[] => {
  const all = namespace === undefined ? backups.list() : backups.byIndex('proof', namespace)
  return all.filter(backup => {
    if (!canProve(backup)) return false
    const { metadata, spec } = backup
    const database = databases.get({ namespace: metadata.namespace, name: spec.databaseName })
    const isItsDatabase = database?.metadata.labels?.[labels.id] === spec.databaseId
    return isItsDatabase && database.spec.backup.durable && database.spec.backup.verify !== 'none'
  })
}

function proofOf(caches: Caches, backup: Backup, now: number): ProofSchedule | undefined {
  const { namespace } = backup.metadata
  if (!canProve(backup) || backup.status?.verification === 'pending' || namespace === undefined) return undefined
  // Only the newest durable backup of a database can be due. For older ones the namespace is not searched.
  const own = backupsOf(caches, namespace, backup.spec.databaseId).filter(canProve)
  if (own.some(other => orderOf(other) > orderOf(backup))) return undefined
  return proofSchedule(backup, proofCandidates(caches, namespace), now)
}

/** Whether a backup that is not completed may have objects in the archive, or an agent that still copies. */
const remainsInArchive = ({ status }: Backup): boolean =>
  status?.incarnation !== undefined && status.phase !== 'completed'

/** The Task of a backup that a user requested: the one that the API created, or one of the operator. */
function taskIdOf(backup: Backup): string | undefined {
  if (backup.status?.taskId !== undefined || backup.spec.purpose !== 'user') return backup.status?.taskId
  return annotatedOperation(backup)?.taskId ?? derivedId(`${backup.metadata.uid}/backup`)
}

/** Whether the Task has ended. It is read only if the backup has ended and its status still names the Task. */
async function hasTaskEnded(caches: Caches, cluster: Cluster, { metadata, status }: Backup): Promise<boolean> {
  if (status?.taskId === undefined || status.finishedAt === undefined) return false
  const task = await findTask({ caches, cluster }, metadata.namespace, status.taskId)
  return task !== undefined && isEnded(task)
}

/**
 * Returns `unknown` until the operator knows whether the cluster supports snapshots. A backup without an id is `absent`
 * during deletion, otherwise `unknown`. Reads the cluster during deletion, and if the cache lacks the snapshot of a
 * backup that has not failed.
 */
async function snapshotOf(
  { snapshots }: Caches,
  cluster: Cluster,
  backup: Backup,
  id: string | undefined,
): Promise<SnapshotFacts | 'absent' | 'unknown'> {
  if (backup.spec.kind === 'durable') return 'absent'
  const isDeleting = backup.metadata.deletionTimestamp !== undefined
  if (id === undefined) return isDeleting ? 'absent' : 'unknown'
  const { served } = snapshots
  // If the kind is no longer served, no snapshot can remain; a completed backup waits for the kind to be served again.
  if (served === 'absent') return backup.status?.phase === 'completed' && !isDeleting ? 'unknown' : 'absent'
  if (served === 'unknown') return 'unknown'
  const key = { namespace: backup.metadata.namespace, name: childNames.snapshot(id) }
  if (isRelabelled(backup, id) && !isDeleting) return 'unknown'
  const cached = isDeleting ? undefined : snapshots.get(key)
  const isCleared = cached === undefined && backup.status?.phase === 'failed' && !isDeleting
  const found = cached ?? (isCleared ? undefined : await readSnapshot(cluster, key))
  return found === undefined ? 'absent' : snapshotFacts(backup, id, found)
}

async function readSnapshot(
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

/** The source database or branch. */
async function sourceOf(
  caches: Caches,
  cluster: Cluster,
  { metadata: { namespace }, spec: { databaseName, databaseId, sourceBranch } }: Backup,
): Promise<ManagedDatabase | Branch | undefined> {
  return sourceBranch === undefined
    ? findByNameAndId(databaseId, { namespace, name: databaseName }, caches.databases, key =>
        cluster.get('ManagedDatabase', key),
      )
    : findByNameAndId(sourceBranch.id, { namespace, name: sourceBranch.name }, caches.branches, key =>
        cluster.get('Branch', key),
      )
}

/** The object with this name, if it has this id: from the cache, otherwise from the cluster. */
async function findByNameAndId<T extends ManagedDatabase | Branch>(
  id: string,
  key: ObjectKey,
  cache: { get(key: ObjectKey): T | undefined },
  read: (key: ObjectKey) => Promise<T | undefined>,
): Promise<T | undefined> {
  const isIt = (found: T | undefined) => found?.metadata.labels?.[labels.id] === id
  const cached = cache.get(key)
  if (isIt(cached)) return cached
  const found = await read(key)
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

/** The owner that still has to copy its data from this backup. */
function usedBy({ databases, restores, branches }: Caches, backup: Backup): string | undefined {
  const [database] = databases.byIndex('source', keyOf(backup))
  if (database !== undefined) return `the database ${database.metadata.name}`
  const restore = restores.byIndex('source', keyOf(backup)).find(({ status }) => status?.verifiedAt === undefined)
  if (restore !== undefined) return `the restore ${restore.metadata.name}`
  // A hot backup for a branch is deleted together with that branch, so its deletion does not wait for the branch.
  const [branch] = backup.spec.kind === 'durable' ? branches.byIndex('source', keyOf(backup)) : []
  return branch && `the branch ${branch.metadata.name}`
}

function isDelayedForRecord({ databases }: Caches, backup: Backup, now: number): boolean {
  const { namespace, deletionTimestamp } = backup.metadata
  if (deletionTimestamp === undefined) return false
  return awaitsRecord(backup, databases.get({ namespace, name: backup.spec.databaseName }), now)
}

/** The state of the restore for which this is the prerestore backup. */
async function prerestoreOf(
  { restores }: Caches,
  cluster: Cluster,
  backup: Backup,
  { status }: ManagedDatabase | Branch,
): Promise<PrerestoreFacts | undefined> {
  const {
    metadata: { namespace = '', name },
    spec,
  } = backup
  const isIts = (restore: Restore) =>
    restore.status?.anchor === name && isTakenFor(backup, takenBy(restore, 'prerestore'))
  const cached = restores.byIndex('database', `${namespace}/${spec.databaseId}`).find(isIts)
  // The cache may not have a restore that has just begun. Without it the backup would be taken before Postgres is
  // stopped, and the restore would fail.
  const restoreName = cached === undefined && spec.purpose === 'prerestore' ? restoreNameOf(name) : undefined
  const read = restoreName === undefined ? undefined : await cluster.get('Restore', { namespace, name: restoreName })
  const restore = cached ?? (read && isIts(read) ? read : undefined)
  if (restore === undefined) return undefined
  const { previous, fencedAt } = restore.status ?? {}
  if (!isOpenRestore(restore)) return { state: 'over' }
  if (fencedAt === undefined || previous === undefined) return { state: 'running' }
  const { claim = '', uid: claimUid = '', incarnation } = previous
  const of = { namespace, id: spec.databaseId, incarnation, number: memberOfClaim(claim) }
  if ((await stopOf(cluster, of, restore)) !== 'locked') return { state: 'stopping' }
  const found = await cluster.get('PersistentVolumeClaim', { namespace, name: claim })
  const systemIdentifier = status?.volume?.systemIdentifier ?? ''
  return { state: 'stopped', claim, claimUid, systemIdentifier, claimExists: found?.metadata.uid === claimUid }
}

/**
 * Whether a prerestore backup waits until its restore has stopped Postgres. Other backups must not wait for it: the
 * restore waits for them before it stops Postgres, so there would be a deadlock.
 */
const awaitsStop = ({ spec, status }: Backup): boolean => spec.purpose === 'prerestore' && status?.phase !== 'running'

/** Returns the backup that this one waits for: a running one, otherwise one that was requested earlier. */
function blockingBackup(caches: Caches, backup: Backup): string | undefined {
  const { namespace, name } = backup.metadata
  const { databaseId, sourceBranch, kind } = backup.spec
  const others = backupsOf(caches, namespace, databaseId).filter(
    other =>
      other.metadata.name !== name &&
      isUnderWay(other) &&
      !awaitsStop(other) &&
      other.spec.kind === kind &&
      other.spec.sourceBranch?.id === sourceBranch?.id,
  )
  const first = others.find(other => other.status?.phase === 'running' || orderOf(other) < orderOf(backup))
  return first?.metadata.name
}

/** The current uid of the claim that the snapshot was requested of, while the backup is not completed. */
async function claimUidOf(
  cluster: Cluster,
  backup: Backup,
  snapshot: SnapshotFacts | 'absent' | 'unknown',
): Promise<string | undefined> {
  if (typeof snapshot !== 'object' || snapshot.takenFrom === undefined || !isUnderWay(backup)) return undefined
  const { namespace } = backup.metadata
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: snapshot.takenFrom.claim })
  return claim?.metadata.uid
}
