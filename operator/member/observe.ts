/** Gathers what a pass needs to know of one member, by its number and that of its incarnation. */
import type { AnyObject, Cluster, ConfigMap, PersistentVolumeClaim, Pod, StatefulSet } from '../../cluster/index.ts'
import { childNames, labels, type PgVersion } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { Drifts } from '../children/drift-history.ts'
import { isOrphan } from '../children/orphans.ts'
import type { Instance } from '../objects/instance.ts'
import type { Owner } from '../objects/ownership.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'
import type { PodSettings } from '../pod-settings.ts'
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

/** Facts known of the member before the pass, which no object reports. */
export type PriorMemberFacts = {
  facts: PostgresFacts | undefined
  dataBytes: number | undefined
  volumeUse: number | undefined
  growthRefusal: GrowthRefusal | undefined
  drifts: Drifts
}

/** Of every incarnation of the owner. */
type Objects = {
  claims: readonly PersistentVolumeClaim[]
  configurations: readonly ConfigMap[]
  statefulSets: readonly StatefulSet[]
}

export type MemberRequest = {
  instance: Instance
  /** Which of its owner's members it is. */
  number: number
  /** The owner of the children; undefined until the id of the instance is settled. */
  owner: Owner | undefined
  isAtRest: boolean
  suspensionBlock?: SuspensionBlock | undefined
  /** Another incarnation serves: retained volumes with the id are its own. */
  anotherServes?: true
}

/** `unlabelled`: its pod, where the cache does not have it. */
export async function observeMember(
  { caches, cluster, images, pods, now }: Observer,
  { instance, number, owner, isAtRest, suspensionBlock, anotherServes, objects }: MemberRequest & { objects: Objects },
  prior: PriorMemberFacts,
): Promise<{ observed: ObservedMember; unlabelled: Pod | undefined }> {
  const { namespace = '' } = instance.metadata
  const { spec } = instance
  const known = incarnationOf(instance, objects.claims)
  const isNew = isUnclaimed(instance, owner && { owner, incarnation: known, number }, objects) && !anotherServes
  const retained = owner && isNew ? await retainedVolumes(cluster, owner) : []
  const adopted = owner && instance.adoptsVolumes ? volumeToAdopt(retained, { owner, number }) : undefined
  const incarnation = (owner && adopted && incarnationOn(adopted, { owner, number })) ?? known
  const key = owner && { namespace, id: owner.id, incarnation, number }
  const cached = key ? childrenOf(caches, key, objects) : noChildren
  const unlabelled = cached.pod === undefined && key ? await unlabelledPod(cluster, instance, key, cached) : undefined
  // What was decided on must not be followed by an older state of the same pod, once its cache has caught up.
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
  }
  return { observed, unlabelled }
}

/** Whether there is neither a volume on record nor a claim, so that one is about to be made. */
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
  { claims, configurations, statefulSets }: Objects,
): MemberChildren {
  const pod = caches.pods.get({ namespace, name: childNames.pod(id, incarnation, number) })
  const named = <T extends AnyObject>(objects: readonly T[], name: string): T | undefined =>
    objects.find(({ metadata }) => metadata.name === name)
  return {
    claim: named(claims, childNames.claim(id, incarnation, number)),
    configuration: named(configurations, childNames.configuration(id, incarnation, number)),
    statefulSet: named(statefulSets, childNames.statefulSet(id, incarnation, number)),
    pod: pod?.metadata.labels?.[labels.database] === id ? pod : undefined,
  }
}

/**
 * The pod that is there without the label by which the cache finds it: its StatefulSet's, or, where that has let it go, the
 * one that was made for the claim. Asked of the cluster where there should be a pod and the cache has none.
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
