/** Gathers what a pass needs to know of one restore: from the caches, and from the cluster itself what a step is decided by. */

import type { Cluster } from '../../cluster/index.ts'
import {
  askedRestore,
  type Backup,
  type Branch,
  childNames,
  firstMember,
  isOpenRestore,
  isRestoreAsked,
  labels,
  type ManagedDatabase,
  memberOfClaim,
  type Restore,
  snapshotRefusal,
} from '../../crds/index.ts'
import { backupsOf } from '../backup/observe.ts'
import { dataSourceOf, snapshotOf } from '../backup/source.ts'
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
import { takenNameOf } from './anchor.ts'
import { type CandidateSeen, seeCandidate } from './candidate.ts'
import { isHandedOver } from './ended.ts'
import { freeIncarnation, leftBehind } from './incarnations.ts'
import type { Left, Observed } from './observed.ts'

type Seen = { observed: Observed; candidate: CandidateSeen | undefined }

type Request = {
  restore: Restore
  keys: InstallationKeys
  prior: PriorMemberFacts
  now: number
  clockDoubt: string | undefined
}

export async function observe(observer: Observer, { restore, keys, prior, now, clockDoubt }: Request): Promise<Seen> {
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
  const source = dataSourceOf(backup, backup && (await snapshotOf(cluster, backup)))
  const isMade =
    status?.phase === 'running' &&
    isOpen &&
    !isSwitched &&
    !isHandedOver(restore) &&
    database?.metadata.deletionTimestamp === undefined
  const candidate =
    isMade && database !== undefined && incarnation !== undefined
      ? await seeCandidate(
          observer,
          {
            database,
            id: spec.databaseId,
            incarnation,
            source: 'source' in source ? source.source : madeAlready(database),
          },
          keys,
          prior,
          now,
        )
      : undefined
  const left = leftBehind(
    restore,
    database,
    restores.filter(other => other.metadata.name !== metadata.name),
  )
  const others = backupsOf(caches, namespace, spec.databaseId).filter(
    ({ metadata: { name } }) => name !== status?.anchor,
  )
  const branches = caches.branches.byIndex('database', `${namespace}/${spec.databaseName}`)
  return {
    candidate,
    observed: {
      restore,
      database,
      isAsked: database !== undefined && isRestoreAsked(database) && askedRestore(database)?.name === metadata.name,
      ahead: isOpen ? aheadOf(caches, restore) : undefined,
      backup,
      source,
      freeIncarnation: freeIncarnation(
        claimsOf(caches, restore).map(claim => Number(claim.metadata.labels?.[labels.incarnation]) || 0),
        restores,
      ),
      candidate: candidate?.candidate,
      unanchorable:
        status?.phase === 'pending' && database !== undefined ? await unanchorable(observer, database) : undefined,
      suspensionBlock: suspensionBlock(
        others.filter(other => other.status?.phase === 'running' && !isInVain(database, other)),
        branches.filter(branch => !isInVain(database, branch)),
      ),
      ...(await oldOf(cluster, restore)),
      anchor: await anchorOf(caches, cluster, restore),
      after:
        isOpen && isSwitched && status?.after === undefined
          ? await cluster.get('Backup', { namespace, name: takenNameOf(restore, 'postrestore') })
          : undefined,
      clockDoubt,
      leftovers: left === undefined ? noLeftovers : await leftoversOf(cluster, restore, left),
    },
  }
}

/** How the Postgres stands that is to be replaced, and the lock that keeps it from starting. */
async function oldOf(cluster: Cluster, restore: Restore): Promise<Pick<Observed, 'old' | 'lock'>> {
  const { fencedAt, previous } = restore.status ?? {}
  if (fencedAt === undefined || previous === undefined) return { old: 'running', lock: undefined }
  const { incarnation, claim } = previous
  const of = {
    ...{ namespace: restore.metadata.namespace, id: restore.spec.databaseId },
    ...{ incarnation, number: memberOfClaim(claim) },
  }
  const pod = await lockOf(cluster, of, restore)
  return {
    old: isOpenRestore(restore) ? await stopOf(cluster, of, restore) : 'running',
    lock: pod && { kind: 'Pod', name: pod.metadata.name, uid: pod.metadata.uid ?? '' },
  }
}

/** The source of a volume that is there: nothing is looked for any more but whether it holds this database's data. */
const madeAlready = ({ metadata, status }: ManagedDatabase): DataSource => ({
  kind: 'snapshot',
  snapshot: '',
  id: metadata.labels?.[labels.id] ?? '',
  systemIdentifier: status?.volume?.systemIdentifier ?? '',
  bytes: 0,
})
const noLeftovers: Observed['leftovers'] = { hasPod: false, objects: [], claim: undefined }

/** By the cluster's own word: the switch goes by what it says. */
async function databaseOf(cluster: Cluster, { metadata, spec }: Restore): Promise<ManagedDatabase | undefined> {
  const found = await cluster.get('ManagedDatabase', { namespace: metadata.namespace, name: spec.databaseName })
  return found?.metadata.labels?.[labels.id] === spec.databaseId ? found : undefined
}

/** Whether something waits for a Postgres that does not serve: a restore that waited for it could never bring one back. */
const isInVain = (database: ManagedDatabase | undefined, { status }: Backup | Branch): boolean =>
  conditionOf(database?.status, 'Ready')?.status !== 'True' &&
  conditionOf(status, 'Progressing')?.reason === 'AwaitingDatabase'

const backupOf = (cluster: Cluster, namespace: string | undefined, name: string | undefined) =>
  name === undefined ? undefined : cluster.get('Backup', { namespace, name })

/** Why no backup can be taken of the volume that a database has, as far as that is known before it is tried. */
async function unanchorable(
  { caches, cluster }: Observer,
  { metadata: { namespace }, spec, status }: ManagedDatabase,
): Promise<string | undefined> {
  const { volume } = status ?? {}
  if (volume === undefined) return 'no volume is on record'
  if (caches.snapshots.served === 'absent') return snapshotsNotServed
  const refusal = snapshotRefusal(spec.region, caches.regions.get({ name: spec.region }))
  if (refusal !== undefined) return refusal.message
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: volume.claim })
  return claim?.metadata.uid === volume.uid ? undefined : `the volume claim ${volume.claim} is not there any more`
}

async function anchorOf(caches: Caches, cluster: Cluster, { metadata, status }: Restore) {
  if (status?.anchor === undefined || status.phase === 'pending') return undefined
  const key = { namespace: metadata.namespace, name: status.anchor }
  return caches.backups.get(key) ?? (status.finishedAt === undefined ? await cluster.get('Backup', key) : undefined)
}

const placeOf = ({ metadata }: Restore): string => `${metadata.creationTimestamp} ${metadata.name}`

/** One that runs comes first; of those that wait, who was asked for first. */
function aheadOf(caches: Caches, restore: Restore): string | undefined {
  const { namespace, name } = restore.metadata
  return caches.restores
    .byIndex('database', `${namespace}/${restore.spec.databaseId}`)
    .filter(other => other.metadata.name !== name && isOpenRestore(other))
    .find(other => other.status?.phase === 'running' || placeOf(other) < placeOf(restore))?.metadata.name
}

const claimsOf = (caches: Caches, { metadata, spec }: Restore) =>
  caches.claims.byIndex('database', spec.databaseId).filter(claim => claim.metadata.namespace === metadata.namespace)

/** What is there of an incarnation that is not to serve, and is the database's own. */
async function leftoversOf(cluster: Cluster, restore: Restore, incarnation: number): Promise<Observed['leftovers']> {
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
  const isMarked = (object: { metadata: { labels?: Record<string, string> } }) =>
    object.metadata.labels?.[labels.database] === databaseId && ownerUidOf(object as never) !== undefined
  const objects: Left[] = [set, map].flatMap(object =>
    object === undefined || !isMarked(object) || object.metadata.deletionTimestamp !== undefined
      ? []
      : [
          {
            kind: object === set ? 'StatefulSet' : 'ConfigMap',
            name: object.metadata.name,
            uid: object.metadata.uid ?? '',
          },
        ],
  )
  // Of the volume that served before, the very claim that was on record, and no other that has its name.
  const isIt =
    claim !== undefined &&
    isMarked(claim) &&
    (incarnation !== previous?.incarnation || claim.metadata.uid === previous.uid)
  return {
    hasPod: (await podsOfMember(cluster, { namespace, id: databaseId, incarnation, number })).length > 0,
    objects,
    claim: isIt ? claim : undefined,
  }
}
