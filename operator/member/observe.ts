/** Collects the facts that a pass needs about one member, by its number and incarnation number. */
import type {
  AnyObject,
  Cluster,
  ConfigMap,
  PersistentVolumeClaim,
  Pod,
  Secret,
  StatefulSet,
} from '../../cluster/index.ts'
import { childNames, labels, type PgVersion } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { Drifts } from '../children/drift-history.ts'
import { isOrphan } from '../children/orphans.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Instance } from '../objects/instance.ts'
import type { Owner } from '../objects/ownership.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'
import type { PodSettings } from '../pod-settings.ts'
import { archiveCertificateOf, archiveSecretOf } from './archive/observe.ts'
import { archiveOf } from './archive/settings.ts'
import { archiveSourceOf, archiveSourceState } from './archive/source.ts'
import type { Member, MemberKey } from './member.ts'
import {
  type GrowthRefusal,
  incarnationOf,
  type MemberChildren,
  type ObservedMember,
  type PostgresFacts,
} from './observed.ts'
import { appliedSizeOf } from './pod/applied-size.ts'
import { nodeOf } from './pod/node.ts'
import { podFacts } from './pod/pod.ts'
import { sizeText, volumeAnnotation } from './pod/stateful-set.ts'
import { copyNodeOf, provisionsWithoutPod } from './storage/copy-node.ts'
import { claimOf, volumesOf } from './storage/observe.ts'
import { provisioningOf } from './storage/provisioning.ts'
import { incarnationOn, retainedVolumes, volumeToAdopt } from './storage/retained.ts'

export type Observer = {
  caches: Caches
  cluster: Cluster
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
  now: () => number
}

/** Facts from earlier passes that no object contains. */
export type PriorMemberFacts = {
  facts: PostgresFacts | undefined
  dataBytes: number | undefined
  volumeUse: number | undefined
  growthRefusal: GrowthRefusal | undefined
  drifts: Drifts
}

/** The objects of all the owner's incarnations. */
type Objects = {
  claims: readonly PersistentVolumeClaim[]
  configurations: readonly ConfigMap[]
  statefulSets: readonly StatefulSet[]
  secrets: readonly Secret[]
}

export type MemberRequest = {
  instance: Instance
  number: number
  /** The children's owner; undefined until the instance has its id. */
  owner: Owner | undefined
  isAtRest: boolean
  suspensionBlock?: SuspensionBlock | undefined
  /** Set if another incarnation serves. Volumes retained with the owner's id then belong to that incarnation. */
  anotherServes?: true
  keys: InstallationKeys
}

/** `unlabelled`: the member's pod, if the cache does not have it. */
export async function observeMember(
  { caches, cluster, images, pods, now }: Observer,
  {
    instance,
    number,
    owner,
    isAtRest,
    suspensionBlock,
    anotherServes,
    keys,
    objects,
  }: MemberRequest & { objects: Objects },
  prior: PriorMemberFacts,
): Promise<{ observed: ObservedMember; unlabelled: Pod | undefined }> {
  const { namespace = '' } = instance.metadata
  const { spec } = instance
  const known = incarnationOf(instance, objects.claims)
  const isNew = isUnclaimed(instance, owner && { owner, incarnation: known, number }, objects) && !anotherServes
  const unclaimed = owner && isNew ? await retainedVolumes(cluster, owner) : []
  // A volume of an incarnation before `firstIncarnation` has older data than the restore source, so the operator
  // ignores the volume.
  const retained = unclaimed.filter(
    volume => ((owner && incarnationOn(volume, { owner, number })) ?? known) >= (instance.firstIncarnation ?? 1),
  )
  const adopted = owner && instance.adoptsVolumes ? volumeToAdopt(retained, { owner, number }) : undefined
  const incarnation = (owner && adopted && incarnationOn(adopted, { owner, number })) ?? known
  const key = owner && { namespace, id: owner.id, incarnation, number }
  const cached = key ? childrenOf(caches, key, objects) : noChildren
  const unlabelled = cached.pod === undefined && key ? await unlabelledPod(cluster, instance, key, cached) : undefined
  // The pod was read from the cluster. The cache must not later return an older state of the same pod.
  if (unlabelled !== undefined) caches.pods.writeThrough(unlabelled)
  const found = cached.pod ?? unlabelled
  const pod = found && podFacts(found)
  const claim = await claimOf(cluster, instance, cached.claim, owner)
  const appliedSize = appliedSizeOf(instance, cached.statefulSet, pod)
  const observed: ObservedMember = {
    instance,
    owner,
    isAtRest,
    suspensionBlock,
    region: caches.regions.get({ name: spec.region }),
    size: caches.sizes.get({ name: sizeText(spec.size) }),
    appliedSize: { pinned: appliedSize, size: caches.sizes.get({ name: sizeText(appliedSize) }) },
    growthRefusal: prior.growthRefusal,
    drifts: prior.drifts,
    image: images[spec.pgVersion],
    podSettings: pods,
    incarnation,
    number,
    children: { ...cached, pod: found, claim },
    volumes: await volumesOf(caches, cluster, instance, claim, owner),
    retained,
    copyNode: claim === undefined ? copyNodeOf(caches, instance) : undefined,
    provisionsWithoutPod: provisionsWithoutPod(claim, now()),
    provisioning: await provisioningOf(cluster, instance, claim, now()),
    pod,
    node: await nodeOf(cluster, pod),
    isOrphanClaim: claim !== undefined && owner !== undefined && isOrphan(caches, owner, claim),
    postgres: prior.facts,
    dataBytes: prior.dataBytes,
    volumeUse: prior.volumeUse,
    ...(archiveOf(instance, pods) === undefined
      ? {}
      : {
          archiveCertificate: archiveCertificateOf(cached.archive, owner && { owner, incarnation, number }, keys, now),
        }),
  }
  if (archiveSourceOf(instance) !== undefined)
    return {
      observed: { ...observed, archiveSource: archiveSourceState(cached.archiveSource, keys, now) },
      unlabelled,
    }
  return { observed, unlabelled }
}

/** Whether there is neither a recorded volume nor a claim. If so, the operator is about to create a claim. */
const isUnclaimed = ({ metadata, status }: Instance, member: Member | undefined, { claims }: Objects) =>
  member !== undefined &&
  metadata.deletionTimestamp === undefined &&
  status?.volume === undefined &&
  claims.every(claim => claim.metadata.name !== childNames.claim(member.owner.id, member.incarnation, member.number))

const noChildren: MemberChildren = {
  claim: undefined,
  configuration: undefined,
  statefulSet: undefined,
  pod: undefined,
}

function childrenOf(
  caches: Caches,
  { namespace, id, incarnation, number }: MemberKey,
  { claims, configurations, statefulSets, secrets }: Objects,
): MemberChildren {
  const pod = caches.pods.get({ namespace, name: childNames.pod(id, incarnation, number) })
  const archive = archiveSecretOf(secrets, { id, incarnation, number })
  const archiveSource = secrets.find(
    ({ metadata }) => metadata.name === childNames.archiveSource(id, incarnation, number),
  )
  const named = <T extends AnyObject>(objects: readonly T[], name: string): T | undefined =>
    objects.find(({ metadata }) => metadata.name === name)
  return {
    claim: named(claims, childNames.claim(id, incarnation, number)),
    configuration: named(configurations, childNames.configuration(id, incarnation, number)),
    statefulSet: named(statefulSets, childNames.statefulSet(id, incarnation, number)),
    pod: pod?.metadata.labels?.[labels.database] === id ? pod : undefined,
    ...(archive === undefined ? {} : { archive }),
    ...(archiveSource === undefined ? {} : { archiveSource }),
  }
}

/**
 * The member's pod if it lacks the label by which the cache selects pods. Reads the cluster if a pod should exist and
 * the cache has none. The member's StatefulSet must control the pod. If the pod has no controller, its annotation must
 * name the member's claim.
 */
async function unlabelledPod(
  cluster: Cluster,
  { metadata: { namespace, deletionTimestamp } }: Instance,
  { id, incarnation, number }: MemberKey,
  { statefulSet, claim }: MemberChildren,
): Promise<Pod | undefined> {
  const isAwaited = (statefulSet?.spec?.replicas ?? 0) > 0
  if (!isAwaited && (deletionTimestamp === undefined || claim === undefined)) return undefined
  const pod = await cluster.get('Pod', { namespace, name: childNames.pod(id, incarnation, number) })
  if (pod === undefined) return undefined
  const controller = pod.metadata.ownerReferences?.find(reference => reference.controller === true)
  if (controller !== undefined) return controller.uid === statefulSet?.metadata.uid ? pod : undefined
  const volume = pod.metadata.annotations?.[volumeAnnotation]
  return volume !== undefined && volume === claim?.metadata.uid ? pod : undefined
}
