/** Observes one restore. Reads from the cluster what decides a step, and the rest from the caches. */

import type { AnyObject, Cluster } from '../../cluster/index.ts'
import {
  type Backup,
  type Branch,
  childNames,
  firstMember,
  isOpenRestore,
  isRestoreRequested,
  labels,
  type ManagedDatabase,
  memberOfClaim,
  type Restore,
  requestedRestore,
  snapshotRefusal,
} from '../../crds/index.ts'
import { backupsOf } from '../backup/observe.ts'
import { type Recovery, recoveryOf, recoverySource } from '../backup/recovery.ts'
import { type BackupSource, dataSourceOf, snapshotOf } from '../backup/source.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Observer, PriorMemberFacts } from '../member/observe.ts'
import { lockOf, stopOf } from '../member/pod/lock.ts'
import { podsOfMember } from '../member/pod/stopped.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { DataSource } from '../objects/instance.ts'
import { ownerUidOf } from '../objects/ownership.ts'
import { snapshotsNotServed } from '../objects/snapshots-not-served.ts'
import { suspensionBlock } from '../objects/suspension-block.ts'
import { type ObservedCandidate, observeCandidate } from './candidate.ts'
import { isSwitchRequested } from './ended.ts'
import { freeIncarnation, remainingIncarnation } from './incarnations.ts'
import type { Leftover, Observed } from './observed.ts'
import { takenNameOf } from './own-backups.ts'

type Seen = { observed: Observed; candidate: ObservedCandidate | undefined }

type Request = {
  restore: Restore
  keys: InstallationKeys
  prior: PriorMemberFacts
  now: number
  clockDistrust: string | undefined
}

export async function observe(
  observer: Observer,
  { restore, keys, prior, now, clockDistrust }: Request,
): Promise<Seen> {
  const { caches, cluster } = observer
  const { metadata, spec, status } = restore
  const { namespace } = metadata
  const database = await databaseOf(cluster, restore)
  const isOpen = isOpenRestore(restore)
  const { incarnation } = status ?? {}
  const isSwitched =
    status?.switchedAt !== undefined || (incarnation !== undefined && database?.status?.incarnation === incarnation)
  const restores = caches.restores.byIndex('database', `${namespace}/${spec.databaseId}`)
  const backup = isOpen && !isSwitched ? await backupOf(cluster, namespace, spec.target.backupName) : undefined
  const all = backupsOf(caches, namespace, spec.databaseId)
  const recovery =
    isOpen && !isSwitched
      ? recoveryOf({ target: spec.target, recorded: status?.recovery, database, backup, backups: all })
      : undefined
  const source = await sourceOf(observer, { restore, backup, recovery })
  const isCreating =
    status?.phase === 'running' &&
    isOpen &&
    !isSwitched &&
    !isSwitchRequested(restore) &&
    database?.metadata.deletionTimestamp === undefined
  const candidate =
    isCreating && database !== undefined && incarnation !== undefined
      ? await observeCandidate(
          observer,
          {
            database,
            id: spec.databaseId,
            incarnation,
            source: 'source' in source ? source.source : existingVolumeSource(database),
          },
          keys,
          prior,
          now,
        )
      : undefined
  const remaining = remainingIncarnation(
    restore,
    database,
    restores.filter(other => other.metadata.name !== metadata.name),
  )
  const others = all.filter(({ metadata: { name } }) => name !== status?.anchor)
  const branches = caches.branches.byIndex('database', `${namespace}/${spec.databaseName}`)
  return {
    candidate,
    observed: {
      restore,
      database,
      isRequested:
        database !== undefined && isRestoreRequested(database) && requestedRestore(database)?.name === metadata.name,
      blockedBy: isOpen ? blockingRestore(caches, restore) : undefined,
      backup,
      source,
      recovery: recovery && 'record' in recovery ? recovery.record : undefined,
      freeIncarnation: freeIncarnation(
        claimsOf(caches, restore).map(claim => Number(claim.metadata.labels?.[labels.incarnation]) || 0),
        restores,
      ),
      candidate: candidate?.candidate,
      prerestoreRefusal:
        status?.phase === 'pending' && database !== undefined ? await prerestoreRefusal(observer, database) : undefined,
      suspensionBlock: suspensionBlock(
        others.filter(other => other.status?.phase === 'running' && !waitsForUnreadyDatabase(database, other)),
        branches.filter(branch => !waitsForUnreadyDatabase(database, branch)),
      ),
      ...(await oldPostgresOf(cluster, restore)),
      prerestore: await prerestoreOf(caches, cluster, restore),
      after:
        isOpen && isSwitched && status?.after === undefined
          ? await cluster.get('Backup', { namespace, name: takenNameOf(restore, 'postrestore') })
          : undefined,
      clockDistrust,
      leftovers: remaining === undefined ? noLeftovers : await leftoversOf(observer, restore, remaining),
    },
  }
}

async function sourceOf(
  { cluster, pods }: Observer,
  { restore, backup, recovery }: { restore: Restore; backup: Backup | undefined; recovery: Recovery },
): Promise<BackupSource> {
  if (recovery === undefined) return dataSourceOf(backup, backup && (await snapshotOf(cluster, backup)))
  return 'record' in recovery ? recoverySource(restore.spec, recovery.record, pods) : recovery
}

/** The state of the old Postgres, and the lock that prevents it from starting. */
async function oldPostgresOf(cluster: Cluster, restore: Restore): Promise<Pick<Observed, 'oldPostgres' | 'lock'>> {
  const { fencedAt, previous } = restore.status ?? {}
  if (fencedAt === undefined || previous === undefined) return { oldPostgres: 'running', lock: undefined }
  const { incarnation, claim } = previous
  const of = {
    ...{ namespace: restore.metadata.namespace, id: restore.spec.databaseId },
    ...{ incarnation, number: memberOfClaim(claim) },
  }
  const pod = await lockOf(cluster, of, restore)
  return {
    oldPostgres: isOpenRestore(restore) ? await stopOf(cluster, of, restore) : 'running',
    lock: pod && { kind: 'Pod', name: pod.metadata.name, uid: pod.metadata.uid ?? '' },
  }
}

/** A placeholder for the source of a volume that already exists. Only its system identifier is compared. */
const existingVolumeSource = ({ metadata, status }: ManagedDatabase): DataSource => ({
  kind: 'snapshot',
  snapshot: '',
  id: metadata.labels?.[labels.id] ?? '',
  systemIdentifier: status?.volume?.systemIdentifier ?? '',
  bytes: 0,
})
const noLeftovers: Observed['leftovers'] = { hasPod: false, objects: [], claim: undefined }

/** Reads the database from the cluster, because the switch depends on it. */
async function databaseOf(cluster: Cluster, { metadata, spec }: Restore): Promise<ManagedDatabase | undefined> {
  const found = await cluster.get('ManagedDatabase', { namespace: metadata.namespace, name: spec.databaseName })
  return found?.metadata.labels?.[labels.id] === spec.databaseId ? found : undefined
}

/**
 * Whether a backup or branch waits for a database that is not Ready. The restore must not wait for it, because only the
 * restore may make the database Ready.
 */
const waitsForUnreadyDatabase = (database: ManagedDatabase | undefined, { status }: Backup | Branch): boolean =>
  conditionOf(database?.status, 'Ready')?.status !== 'True' &&
  conditionOf(status, 'Progressing')?.reason === 'AwaitingDatabase'

const backupOf = (cluster: Cluster, namespace: string | undefined, name: string | undefined) =>
  name === undefined ? undefined : cluster.get('Backup', { namespace, name })

/** Returns a known reason why the current volume cannot be backed up. */
async function prerestoreRefusal(
  { caches, cluster }: Observer,
  { metadata: { namespace }, spec, status }: ManagedDatabase,
): Promise<string | undefined> {
  const { volume } = status ?? {}
  if (volume === undefined) return 'no volume is recorded'
  if (caches.snapshots.served === 'absent') return snapshotsNotServed
  const refusal = snapshotRefusal(spec.region, caches.regions.get({ name: spec.region }))
  if (refusal !== undefined) return refusal.message
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: volume.claim })
  return claim?.metadata.uid === volume.uid ? undefined : `the volume claim ${volume.claim} no longer exists`
}

async function prerestoreOf(caches: Caches, cluster: Cluster, { metadata, status }: Restore) {
  if (status?.anchor === undefined || status.phase === 'pending') return undefined
  const key = { namespace: metadata.namespace, name: status.anchor }
  return caches.backups.get(key) ?? (status.finishedAt === undefined ? await cluster.get('Backup', key) : undefined)
}

const orderOf = ({ metadata }: Restore): string => `${metadata.creationTimestamp} ${metadata.name}`

/** Returns the restore that this one waits for: a running one, otherwise one that was requested earlier. */
function blockingRestore(caches: Caches, restore: Restore): string | undefined {
  const { namespace, name } = restore.metadata
  return caches.restores
    .byIndex('database', `${namespace}/${restore.spec.databaseId}`)
    .filter(other => other.metadata.name !== name && isOpenRestore(other))
    .find(other => other.status?.phase === 'running' || orderOf(other) < orderOf(restore))?.metadata.name
}

const claimsOf = (caches: Caches, { metadata, spec }: Restore) =>
  caches.claims.byIndex('database', spec.databaseId).filter(claim => claim.metadata.namespace === metadata.namespace)

/** Returns the objects of the unused volume: the replaced one, or the one of a failed restore. */
async function leftoversOf(
  { cluster, caches }: Observer,
  restore: Restore,
  incarnation: number,
): Promise<Observed['leftovers']> {
  const { namespace } = restore.metadata
  const { databaseId } = restore.spec
  const { previous } = restore.status ?? {}
  const number = incarnation === previous?.incarnation ? memberOfClaim(previous.claim) : firstMember
  const at = (name: string) => ({ namespace, name })
  const [set, map, claim] = await Promise.all([
    cluster.get('StatefulSet', at(childNames.statefulSet(databaseId, incarnation, number))),
    cluster.get('ConfigMap', at(childNames.configuration(databaseId, incarnation, number))),
    cluster.get('PersistentVolumeClaim', at(childNames.claim(databaseId, incarnation, number))),
  ])
  const isLabelled = (object: { metadata: { labels?: Record<string, string> } }) =>
    object.metadata.labels?.[labels.database] === databaseId && ownerUidOf(object as never) !== undefined
  const secrets = [childNames.archive, childNames.archiveSource].map(name =>
    caches.secrets.get({ namespace, name: name(databaseId, incarnation, number) }),
  )
  const leftover = (kind: Leftover['kind'], object: AnyObject | undefined): Leftover[] =>
    object === undefined || !isLabelled(object) || object.metadata.deletionTimestamp !== undefined
      ? []
      : [{ kind, name: object.metadata.name, uid: object.metadata.uid ?? '' }]
  const objects = [
    ...leftover('StatefulSet', set),
    ...leftover('ConfigMap', map),
    ...secrets.flatMap(secret => leftover('Secret', secret)),
  ]
  // The claim of the previous volume must have the recorded uid.
  const isIt =
    claim !== undefined &&
    isLabelled(claim) &&
    (incarnation !== previous?.incarnation || claim.metadata.uid === previous.uid)
  return {
    hasPod: (await podsOfMember(cluster, { namespace, id: databaseId, incarnation, number })).length > 0,
    objects,
    claim: isIt ? claim : undefined,
  }
}
