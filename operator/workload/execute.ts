/** Performs one action of a plan. It changes no object that is not the owner's own. */

import {
  type AnyObject,
  type Cluster,
  ClusterError,
  type Draft,
  isClusterError,
  type KindName,
  type Kinds,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Secret,
} from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { AppliedKind, PutBack } from '../children/actions.ts'
import type { DriftBook } from '../children/drifts.ts'
import { certificateDraft, fingerprintOf, loadedAnnotation } from '../endpoint/certificate.ts'
import { credentialsDraft, mintPasswords, rotated, takenBack, withoutPrevious } from '../endpoint/credentials.ts'
import { credentialsOf } from '../endpoint/observe.ts'
import type { PortAllocator } from '../endpoint/port-allocator.ts'
import type { InstallationKeys } from '../keys.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import type { GrowthBook } from '../member/storage/growths.ts'
import { changedVolume, copiedVolume } from '../member/storage/persistent-volume.ts'
import { perilOf } from '../member/storage/plan/peril.ts'
import { driftOf, withoutSurplus } from '../objects/foreign-fields.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { childMetadata, isAnothers, type Owner, ownerUidOf } from '../objects/ownership.ts'
import type { DesiredRoles, PostgresTarget } from '../postgres/administrator.ts'
import type { Action } from './actions.ts'
import type { Observation } from './observe.ts'

export type Executor = {
  /** Every write of a pass goes through it. */
  cluster: Cluster
  ports: PortAllocator
  growths: GrowthBook
  drifts: DriftBook
  now: () => number
  /** As they are at the moment: what is issued late in a pass is issued under what is in force then. */
  keys: () => InstallationKeys
  /** What was learnt of this database's Postgres is not true any more. */
  outdateProbe: (key: string, failed: boolean) => void
}

/** What a pass does its actions with. */
export type Pass = Observation & {
  key: string
  keys: InstallationKeys
  access: PostgresAccess | undefined
  target: PostgresTarget | undefined
  signal: AbortSignal
}

/** `refused`: the volume must not grow. */
export type Done = 'done' | 'refused'

export async function perform(executor: Executor, pass: Pass, action: Action): Promise<Done> {
  const { cluster } = executor
  switch (action.do) {
    case 'mark':
      await mark(executor, pass, action.kind, action.object)
      return 'done'
    case 'relabel':
      await cluster.replace('Secret', action.secret)
      return 'done'
    case 'mint-credentials':
      await mint(executor, pass)
      return 'done'
    case 'find-credentials':
      await findCredentials(executor, pass)
      return 'done'
    case 'rotate-passwords':
      await rewrite(executor, pass, (secret, key) => rotated(secret, key, action.rotations))
      return 'done'
    case 'forget-previous-passwords':
      await rewrite(executor, pass, withoutPrevious)
      return 'done'
    case 'take-back-passwords':
      await takeBack(executor, pass, action.roles)
      return 'done'
    case 'issue-certificate': {
      const { authority } = executor.keys()
      if (authority === undefined) return 'done'
      await put(executor, pass, 'Secret', certificateDraft(ownerOfPass(pass), authority, action.names, executor.now))
      return 'done'
    }
    case 'create-claim':
      await make(executor, pass, 'PersistentVolumeClaim', action.draft)
      return 'done'
    case 'grow-claim':
      return grow(executor, pass, action.claim)
    case 'update-claim':
      await cluster.replace('PersistentVolumeClaim', action.claim)
      return 'done'
    case 'change-volume':
      await changeVolume(executor, action)
      return 'done'
    case 'copy-volume':
      await copyVolume(executor, action)
      return 'done'
    case 'apply':
      if (action.kind === 'StatefulSet' && (action.draft as Draft<'StatefulSet'>).spec?.replicas === 0)
        await refuseStopInPeril(executor, pass)
      await put(executor, pass, action.kind, action.draft, action.putBack)
      return 'done'
    case 'claim-port':
      await executor.ports.claim(cluster, ownerOfPass(pass), pass.observed.region, action.preferred)
      return 'done'
    case 'leave-port':
      await executor.ports.leave(cluster, action)
      return 'done'
    case 'delete': {
      const { kind, name, namespace, uid, resourceVersion } = action
      if (kind === 'Pod') await refuseStopInPeril(executor, pass)
      await cluster.delete(kind, { namespace, name }, { uid, resourceVersion })
      return 'done'
    }
    case 'repair-pod':
      await repairPod(executor, action)
      return 'done'
    case 'note-loaded':
      await noteLoaded(executor, pass, action.fingerprint)
      return 'done'
    case 'ensure-roles':
    case 'detach':
    case 'open':
    case 'reload':
      await inPostgres(executor, pass, action)
      return 'done'
  }
}

/** A cache may not have heard yet that somebody deletes claim or volume: the cluster's own word counts before a pod is stopped. */
async function refuseStopInPeril({ cluster }: Executor, { observed }: Pass): Promise<void> {
  const { instance, children, pod } = observed
  const { claim } = children
  if (pod === undefined || claim === undefined || instance.status?.volume === undefined) return
  if (instance.metadata.deletionTimestamp !== undefined || perilOf(observed) !== 'none') return
  const found = await cluster.get('PersistentVolumeClaim', claim.metadata)
  const isThere = found?.metadata.uid === claim.metadata.uid && found?.metadata.deletionTimestamp === undefined
  const name = claim.spec?.volumeName
  if (isThere && (name === undefined || (await isThereToStay(cluster, name)))) return
  throw new ClusterError('Conflict', 'the volume claim is not what it was: the pod is not stopped')
}

/** Whether a volume is there, and nobody deletes it. */
async function isThereToStay(cluster: Cluster, name: string): Promise<boolean> {
  const volume = await cluster.get('PersistentVolume', { name })
  return volume !== undefined && volume.metadata.deletionTimestamp === undefined
}

/** Writes our marks, unless the database that the object was another's turns out to live. */
async function mark({ cluster }: Executor, { observed }: Pass, kind: KindName, object: AnyObject): Promise<void> {
  const { namespace, name } = object.metadata
  const found = await cluster.get(kind, { namespace, name })
  if (found === undefined || found.metadata.uid !== object.metadata.uid) return
  if (await isAnothers(cluster, observed.instance, found)) throw new NameTakenError(kind, found.metadata)
  // The action names the kind of its object.
  await cluster.replace(kind, object as Kinds[typeof kind])
}

async function repairPod(
  { cluster }: Executor,
  { name, namespace, uid, labels, images, annotations }: Extract<Action, { do: 'repair-pod' }>,
): Promise<void> {
  const pod = await cluster.get('Pod', { namespace, name })
  if (pod?.spec === undefined || pod.metadata.uid !== uid) return
  const withImages = <C extends { name: string; image?: string }>(containers: C[]): C[] =>
    containers.map(container => ({ ...container, ...(images[container.name] && { image: images[container.name] }) }))
  const { containers, initContainers } = pod.spec
  await cluster.replace('Pod', {
    ...pod,
    metadata: {
      ...pod.metadata,
      labels: { ...pod.metadata.labels, ...labels },
      annotations: { ...pod.metadata.annotations, ...annotations },
    },
    spec: {
      ...pod.spec,
      containers: withImages(containers),
      ...(initContainers && { initContainers: withImages(initContainers) }),
    },
  })
}

async function changeVolume(
  { cluster }: Executor,
  { name, uid, change }: Extract<Action, { do: 'change-volume' }>,
): Promise<void> {
  const volume = await cluster.get('PersistentVolume', { name })
  if (volume === undefined || volume.metadata.uid !== uid) return
  const changed = changedVolume(volume, change)
  if (changed === volume) return
  // A teardown names the claim, which is gone on purpose.
  if (change.to === 'give-back' && change.claimUid === undefined) await refuseGiveBackInPeril(cluster, volume)
  await cluster.replace('PersistentVolume', changed)
}

/**
 * Caches may lag behind a claim that somebody deletes, for which another leader retained the volume: it gets its reclaim
 * policy back only while its claim stays.
 */
async function refuseGiveBackInPeril(cluster: Cluster, { metadata, spec }: PersistentVolume): Promise<void> {
  const { namespace, name = '', uid } = spec?.claimRef ?? {}
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name })
  const stays = claim !== undefined && claim.metadata.uid === uid && claim.metadata.deletionTimestamp === undefined
  if (stays && metadata.deletionTimestamp === undefined) return
  throw new ClusterError(
    'Conflict',
    `the claim of volume ${metadata.name} is not what it was: the volume stays retained`,
  )
}

async function copyVolume(
  { cluster }: Executor,
  { from, uid, name, owner }: Extract<Action, { do: 'copy-volume' }>,
): Promise<void> {
  const volume = await cluster.get('PersistentVolume', { name: from })
  if (volume === undefined || volume.metadata.uid !== uid) return
  await cluster.create('PersistentVolume', copiedVolume(volume, name, owner))
}

function ownerOfPass({ observed: { owner } }: Pass): Owner {
  if (owner !== undefined) return owner
  throw new ClusterError('Conflict', 'the id of the database is not settled')
}

async function mint(executor: Executor, pass: Pass): Promise<void> {
  const { sealingKey } = pass.keys
  if (sealingKey === undefined) return
  await make(executor, pass, 'Secret', credentialsDraft(ownerOfPass(pass), sealingKey, mintPasswords()))
}

async function findCredentials(executor: Executor, pass: Pass): Promise<void> {
  const owner = ownerOfPass(pass)
  const metadata = childMetadata(owner, childNames.credentials(owner.id), 'credentials')
  const draft: Draft<'Secret'> = { apiVersion: 'v1', kind: 'Secret', metadata }
  const found = await existing(executor, pass, 'Secret', draft)
  if (found !== undefined) await relabel(executor, 'Secret', found, draft)
}

/** Writes the credentials Secret, only as it was observed: a password that somebody else has made meanwhile stays. */
async function rewrite(
  { cluster }: Executor,
  { observed, keys: { sealingKey } }: Pass,
  change: (secret: Secret, sealingKey: Uint8Array) => Secret,
): Promise<void> {
  const { credentials } = observed.children
  if (credentials === undefined || sealingKey === undefined) return
  await cluster.replace('Secret', change(credentials, sealingKey))
}

/** What a quota or a storage class refuses is told, and not asked for again at once. */
async function grow(
  { cluster, growths }: Executor,
  { key }: Pass,
  claim: PersistentVolumeClaim,
): Promise<'done' | 'refused'> {
  try {
    await cluster.replace('PersistentVolumeClaim', claim)
  } catch (error) {
    if (!isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')) throw error
    growths.refused(key, claim, error.message)
    return 'refused'
  }
  growths.admitted(key)
  return 'done'
}

/** What stands under a draft's name, if it is the database's own. @throws NameTakenError where it is not */
async function existing<K extends KindName>(
  { cluster }: Executor,
  { observed }: Pass,
  kind: K,
  { metadata: { namespace, name } }: Draft<K>,
): Promise<Kinds[K] | undefined> {
  const found = await cluster.get(kind, { namespace, name })
  if (found !== undefined && ownerUidOf(found) !== observed.instance.metadata.uid)
    throw new NameTakenError(kind, found.metadata)
  return found
}

/**
 * Creates what is minted or must not be overwritten. Where it is there already, made by another pass or without the
 * labels by which the caches find it, it stays as it is and gets its labels back.
 */
async function make<K extends 'Secret' | 'PersistentVolumeClaim'>(
  executor: Executor,
  pass: Pass,
  kind: K,
  draft: Draft<K>,
): Promise<void> {
  try {
    await executor.cluster.create(kind, draft)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const found = await existing(executor, pass, kind, draft)
    if (found === undefined) throw error
    await relabel(executor, kind, found, draft)
  }
}

async function relabel<K extends 'Secret' | 'PersistentVolumeClaim'>(
  { cluster }: Executor,
  kind: K,
  found: Kinds[K],
  draft: Draft<K>,
): Promise<void> {
  const metadata = { ...found.metadata, labels: { ...found.metadata.labels, ...draft.metadata.labels } }
  await cluster.replace(kind, { ...found, metadata })
}

/** The child of this kind and name, as it was observed. */
function known<K extends 'Secret' | AppliedKind>(pass: Pass, kind: K, name: string): Kinds[K] | undefined {
  const { configuration, route, service, networkPolicy, disruptionBudget, statefulSet, certificate } =
    pass.observed.children
  const children = [configuration, route, service, networkPolicy, disruptionBudget, statefulSet, certificate]
  const found = children.find(child => child?.kind === kind && child.metadata.name === name)
  // It is of the kind that was looked for.
  return found as Kinds[K] | undefined
}

/**
 * Applies a draft over the database's own child, as it was seen and not if it has changed since; creates it where there is
 * none under its name. Fields that others added are removed first: an apply leaves those where they are.
 */
async function put<K extends 'Secret' | AppliedKind>(
  executor: Executor,
  pass: Pass,
  kind: K,
  draft: Draft<K>,
  putBack?: PutBack,
): Promise<void> {
  const { cluster, drifts } = executor
  let child = known(pass, kind, draft.metadata.name) ?? (await existing(executor, pass, kind, draft))
  if (child !== undefined && isImmutable(child)) {
    const { namespace, name, uid, resourceVersion } = child.metadata
    await cluster.delete(kind, { namespace, name }, { uid, resourceVersion })
    child = undefined
  }
  if (child !== undefined && putBack?.drifts.some(({ isSurplus }) => isSurplus))
    child = await cluster.replace(kind, withoutSurplus(child, putBack.drifts))
  const written = await cluster.apply(kind, child === undefined ? draft : asSeen(draft, child))
  drifts.wrote(pass.key, written)
  if (putBack !== undefined) drifts.putBack(pass.key, written, putBack.corrections, driftOf(written, draft))
}

/** Others can set this on a ConfigMap or a Secret, and nobody can take it back: the object is made anew. */
const isImmutable = (child: AnyObject): boolean => 'immutable' in child && child.immutable === true

const asSeen = <K extends KindName>(draft: Draft<K>, { metadata: { uid, resourceVersion } }: AnyObject): Draft<K> => ({
  ...draft,
  metadata: { ...draft.metadata, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
})

/** On the Secret as it was observed: one that was issued anew meanwhile is another, and refuses. */
async function noteLoaded({ cluster }: Executor, { observed }: Pass, fingerprint: string): Promise<void> {
  const { certificate } = observed.children
  if (certificate === undefined || fingerprintOf(certificate) !== fingerprint) return
  const annotations = { ...certificate.metadata.annotations, [loadedAnnotation]: fingerprint }
  await cluster.replace('Secret', { ...certificate, metadata: { ...certificate.metadata, annotations } })
}

type InPostgres = Extract<Action, { do: 'ensure-roles' | 'detach' | 'open' | 'reload' }>

async function inPostgres(executor: Executor, pass: Pass, action: InPostgres): Promise<void> {
  const { access, target, signal, passwords } = pass
  if (access === undefined || target === undefined) return
  await touching(executor, pass, async () => {
    if (action.do === 'reload') await access.reload(target, signal)
    else if (action.do === 'detach') await access.detach(target, signal)
    else if (passwords === undefined || pass.observed.credentials.state !== 'readable') return
    else if (action.do === 'open') await access.open(target, () => currentRoles(executor, pass), signal)
    else await access.ensureRoles(target, () => currentRoles(executor, pass), signal, { opens: action.opens })
  })
}

/** Whatever is done in Postgres, or not, has it looked at again. */
async function touching({ outdateProbe }: Executor, { key }: Pass, work: () => Promise<void>): Promise<void> {
  let failed = true
  try {
    await work()
    failed = false
  } finally {
    outdateProbe(key, failed)
  }
}

/** The passwords as the cluster itself has them now. @throws ClusterError `Conflict` where they are not readable any more */
async function currentRoles({ cluster, keys }: Executor, { observed }: Pass): Promise<DesiredRoles> {
  const { children, incarnation, instance } = observed
  const seen = children.credentials?.metadata
  const secret = seen && (await cluster.get('Secret', seen))
  const isOurs =
    secret !== undefined && (secret.metadata.uid === seen?.uid || ownerUidOf(secret) === instance.metadata.uid)
  const { facts, passwords } = credentialsOf(isOurs ? secret : undefined, keys(), incarnation)
  if (passwords === undefined || facts.state !== 'readable')
    throw new ClusterError('Conflict', 'the credentials are not what they were: nothing is done in Postgres')
  return { passwords, mark: facts.mark }
}

/**
 * While no operator changes the roles: one that was frozen with the new password in its hands has set it before, which the next
 * look finds, or reads the one before from then on.
 */
async function takeBack(executor: Executor, pass: Pass, roles: readonly DatabaseRole[]): Promise<void> {
  const { access, target, signal } = pass
  if (access === undefined || target === undefined) return
  const work = () => rewrite(executor, pass, (secret, key) => takenBack(secret, key, roles))
  await touching(executor, pass, () => access.withRolesLocked(target, work, signal))
}
