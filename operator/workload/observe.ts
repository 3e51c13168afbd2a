/**
 * Gathers what a pass needs to know of one Postgres: from the caches, and where a cache could mislead (a volume that
 * seems gone, an acknowledgement) from the cluster itself.
 */

import type { AnyObject, Cluster, PersistentVolumeClaim, Pod, Secret } from '../../cluster/index.ts'
import { childNames, labels, type PgVersion, systemNamespace } from '../../crds/index.ts'
import {
  acknowledged,
  type GatewayLease,
  gatewayComponent,
  portOfRoute,
  portRefusedBy,
  readRoute,
  routeComponent,
} from '../../routes/route.ts'
import { databaseRoles, previousPassword, rotationsOf, SealError } from '../../sealing/credentials.ts'
import type { Caches } from '../caches.ts'
import type { Drifts } from '../children/drifts.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { fingerprintOf, holdsMonitor, isGoodCertificate, isLoaded, issuedAt } from '../endpoint/certificate.ts'
import { openCredentials, type Passwords } from '../endpoint/credentials.ts'
import { desiredNames } from '../endpoint/external-address.ts'
import type { AskedRotations, CertificateFacts, CredentialsFacts, RouteFacts } from '../endpoint/observed.ts'
import type { InstallationKeys } from '../keys.ts'
import { type GrowthRefusal, type Hold, incarnationOf, type PostgresFacts, type Volumes } from '../member/observed.ts'
import { nodeOf } from '../member/pod/node.ts'
import { podFacts } from '../member/pod/pod.ts'
import { sizeInForce } from '../member/pod/size-in-force.ts'
import { sizeText, volumeAnnotation } from '../member/pod/stateful-set.ts'
import { systemIdentifierOf } from '../member/storage/claim.ts'
import { comesAlone, copyNodeOf } from '../member/storage/copy-node.ts'
import { copyName, type VolumeFacts, volumeFacts } from '../member/storage/persistent-volume.ts'
import { provisioningOf } from '../member/storage/provisioning.ts'
import { incarnationOn, retainedVolumes, volumeToAdopt } from '../member/storage/retained.ts'
import { conditionOf } from '../objects/conditions.ts'
import { isUnderAnotherId, type Owner, ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import { passwordsMark } from '../postgres/marks.ts'
import type { Instance } from './instance.ts'
import type { Children, Observed, Remains } from './observed.ts'

export type Observer = {
  caches: Caches
  cluster: Cluster
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
  now: () => number
}

/** Of a kind whose objects are deleted by their age. */
export type GuardedObserver = Observer & { clock: ClockGuard }

/** What a pass knows, and the passwords, which the plan does not get to see. */
export type Observation<O extends Observed = Observed> = { observed: O; passwords: Passwords | undefined }

/** What was learnt of the instance before, which no object says. */
export type Learnt = {
  facts: PostgresFacts | undefined
  dataBytes: number | undefined
  volumeUse: number | undefined
  growthRefusal: GrowthRefusal | undefined
  drifts: Drifts
  /** Gateways cannot connect to a Postgres that the operator reaches. */
  isCutOff: boolean
}

type InstanceRequest = {
  instance: Instance
  /** Whose the children are; undefined until that is settled. */
  owner: Owner | undefined
  isAtRest: boolean
  held?: Hold | undefined
  rotations?: AskedRotations | undefined
  /** Another incarnation serves: volumes under the id are those of the past. */
  isBeside?: true
  /** Everything that is marked as the owner's, or that is nobody's under its id. */
  remains: Remains
}

const noRotations: AskedRotations = { asked: {}, isGivenUp: false }

export async function observeInstance(
  { caches, cluster, images, pods, now }: Observer,
  { instance, owner, isAtRest, held, rotations = noRotations, isBeside, remains }: InstanceRequest,
  keys: InstallationKeys,
  learnt: Learnt,
): Promise<Observation<Observed>> {
  const { namespace = '' } = instance.metadata
  const { spec } = instance
  const known = incarnationOf(instance, remains.claims)
  const isNew = isUnclaimed(instance, owner, known, remains) && !isBeside
  const retained = owner && isNew ? await retainedVolumes(cluster, owner) : []
  const adopted = owner && instance.adoptsVolumes ? volumeToAdopt(retained, owner) : undefined
  const incarnation = (owner && adopted && incarnationOn(adopted, owner)) ?? known
  const cached = owner ? childrenOf(caches, owner.id, namespace, incarnation, remains) : noChildren
  const found = cached.pod ?? (owner && (await unlabelledPod(cluster, instance, owner.id, incarnation, cached)))
  const children = { ...cached, pod: found }
  const pod = found && podFacts(found)
  const claim = await claimOf(cluster, instance, children.claim, owner)
  const region = caches.regions.get({ name: spec.region })
  const { facts: credentials, passwords } = credentialsOf(children.credentials, keys, incarnation)
  const inForce = sizeInForce(instance, children.statefulSet, pod)
  const observed: Observed = {
    instance,
    owner,
    isAtRest,
    held,
    rotations,
    keys: {
      sealingKey: keys.sealingKey !== undefined,
      authority: keys.authority !== undefined,
      isChanging: keys.authority?.isChanging === true,
    },
    region,
    size: caches.sizes.get({ name: sizeText(spec.size) }),
    inForce: { pinned: inForce, size: caches.sizes.get({ name: sizeText(inForce) }) },
    growthRefusal: learnt.growthRefusal,
    drifts: learnt.drifts,
    isCutOff: learnt.isCutOff,
    image: images[spec.pgVersion],
    podSettings: pods,
    incarnation,
    children: { ...children, claim },
    remains: found === undefined || cached.pod ? remains : { ...remains, pods: [...remains.pods, found] },
    volumes: await volumesOf(caches, cluster, instance, claim, owner),
    retained,
    copyNode: claim === undefined ? copyNodeOf(caches, instance) : undefined,
    volumeComesAlone: comesAlone(claim, now()),
    provisioning: await provisioningOf(cluster, instance, claim, now()),
    pod,
    node: await nodeOf(cluster, pod),
    isStrayClaim: claim !== undefined && owner !== undefined && isStray(caches, owner, claim),
    credentials,
    certificate: certificateOf(children.certificate, keys, owner && region && desiredNames(owner, region), now),
    route: await routeOf({ cluster, gateways: caches.gateways.list() }, instance, isAtRest, children.route, now),
    postgres: learnt.facts,
    dataBytes: learnt.dataBytes,
    volumeUse: learnt.volumeUse,
  }
  return { observed, passwords }
}

/** Whether there is neither a volume on record nor a claim, so that one is about to be made. */
const isUnclaimed = ({ metadata, status }: Instance, owner: Owner | undefined, incarnation: number, remains: Remains) =>
  owner !== undefined &&
  metadata.deletionTimestamp === undefined &&
  status?.volume === undefined &&
  remains.claims.every(claim => claim.metadata.name !== childNames.claim(owner.id, incarnation))

const noChildren: Children = {
  credentials: undefined,
  certificate: undefined,
  claim: undefined,
  configuration: undefined,
  service: undefined,
  networkPolicy: undefined,
  disruptionBudget: undefined,
  statefulSet: undefined,
  pod: undefined,
  route: undefined,
}

/** Whether an object of our id is nobody's that lives: of a database before it was put back, or without its marks. */
function isStray(caches: Caches, { uid, id }: Pick<Owner, 'uid' | 'id'>, object: Pick<AnyObject, 'metadata'>): boolean {
  if (object.metadata.labels?.[labels.database] !== id) return false
  const owner = ownerUidOf(object)
  return owner === undefined || (owner !== uid && !caches.isOwner(owner))
}

/** A volume claim of an id, in its owner's namespace, and no living owner's. `key`: whose it was. */
export type StrayClaim = { name: string; key: string | undefined }

/**
 * The claims of our id that are nobody's that lives: from the cluster itself, since whether a database starts on an empty volume
 * is decided by them.
 */
export async function strayClaims(
  caches: Caches,
  cluster: Cluster,
  { namespace, uid, id }: { namespace: string; uid: string; id: string },
): Promise<StrayClaim[]> {
  const { items } = await cluster.list('PersistentVolumeClaim', { namespace, labels: { [labels.database]: id } })
  return items
    .filter(claim => isStray(caches, { uid, id }, claim))
    .map(claim => ({ name: claim.metadata.name, key: ownerKeyOf(claim) }))
}

/**
 * What is ours by its mark, and what of our id is nobody's. A mark that somebody wrote in another namespace makes
 * nothing ours. Without an id, only what is marked.
 */
export function remainsOf(
  caches: Caches,
  namespace: string,
  { uid, id }: { uid: string; id: string | undefined },
): Remains {
  const ofUs = <T extends AnyObject>(informer: {
    byIndex(name: 'owner' | 'database', value: string): readonly T[]
  }): T[] => {
    const strays =
      id === undefined ? [] : informer.byIndex('database', id).filter(object => isStray(caches, { uid, id }, object))
    return [...informer.byIndex('owner', uid), ...strays]
  }
  const here = <T extends AnyObject>(objects: readonly T[]): T[] =>
    objects.filter(object => object.metadata.namespace === namespace)
  const configMaps = ofUs(caches.configMaps)
  const isRoute = (map: (typeof configMaps)[number]) => map.metadata.labels?.[labels.component] === routeComponent
  // All routes stand in one namespace; another database may have this id elsewhere.
  const isOfHere = (map: (typeof configMaps)[number]) =>
    ownerUidOf(map) === uid || ownerKeyOf(map)?.startsWith(`${namespace}/`) !== false
  return {
    statefulSets: here(ofUs(caches.statefulSets)),
    pods: [],
    services: here(ofUs(caches.services)),
    networkPolicies: here(ofUs(caches.networkPolicies)),
    disruptionBudgets: here(ofUs(caches.disruptionBudgets)),
    configurations: here(configMaps).filter(map => !isRoute(map)),
    claims: here(ofUs(caches.claims)),
    secrets: here(ofUs(caches.secrets.within(namespace))),
    volumes: ofUs(caches.volumes)
      .map(volume => volumeFacts(volume, undefined))
      .filter(({ claim }) => claim?.startsWith(`${namespace}/`)),
    routes: configMaps.filter(map => map.metadata.namespace === systemNamespace && isRoute(map) && isOfHere(map)),
  }
}

function childrenOf(caches: Caches, id: string, namespace: string, incarnation: number, remains: Remains): Children {
  const ours = <T extends Parameters<typeof ownerUidOf>[0]>(objects: readonly T[], name: string): T | undefined =>
    objects.find(object => object.metadata.name === name)
  const pod = caches.pods.get({ namespace, name: childNames.pod(id, incarnation) })
  const routes = remains.routes.toSorted((left, right) => (left.metadata.name < right.metadata.name ? -1 : 1))
  return {
    credentials: ours(remains.secrets, childNames.credentials(id)),
    certificate: ours(remains.secrets, childNames.tls(id)),
    claim: ours(remains.claims, childNames.claim(id, incarnation)),
    configuration: ours(remains.configurations, childNames.configuration(id, incarnation)),
    service: ours(remains.services, childNames.service(id)),
    networkPolicy: ours(remains.networkPolicies, childNames.service(id)),
    disruptionBudget: ours(remains.disruptionBudgets, childNames.service(id)),
    statefulSet: ours(remains.statefulSets, childNames.statefulSet(id, incarnation)),
    pod: pod?.metadata.labels?.[labels.database] === id ? pod : undefined,
    route: routes[0],
  }
}

/**
 * The pod that is there without the label by which the cache finds it: its StatefulSet's, or, where that has let it go, the
 * one that was made for the claim. Asked of the cluster where there should be a pod and the cache has none.
 */
async function unlabelledPod(
  cluster: Cluster,
  { metadata: { namespace, deletionTimestamp } }: Instance,
  id: string,
  incarnation: number,
  { statefulSet, claim }: Children,
): Promise<Pod | undefined> {
  const isAwaited = (statefulSet?.spec?.replicas ?? 0) > 0
  if (!isAwaited && (deletionTimestamp === undefined || claim === undefined)) return undefined
  const pod = await cluster.get('Pod', { namespace, name: childNames.pod(id, incarnation) })
  if (pod === undefined) return undefined
  const controller = pod.metadata.ownerReferences?.find(reference => reference.controller === true)
  if (controller !== undefined) return controller.uid === statefulSet?.metadata.uid ? pod : undefined
  const volume = pod.metadata.annotations?.[volumeAnnotation]
  return volume !== undefined && volume === claim?.metadata.uid ? pod : undefined
}

/**
 * The claim of the data: the recorded one, by its uid, whatever was done to its labels and owner; before one is
 * recorded, ours by its owner, or nobody's that lives. Only the cluster's own word counts for a recorded claim that seems to be gone.
 */
async function claimOf(
  cluster: Cluster,
  { metadata: { namespace, uid }, status }: Instance,
  cached: PersistentVolumeClaim | undefined,
  owner: Owner | undefined,
): Promise<PersistentVolumeClaim | undefined> {
  const recorded = status?.volume
  if (recorded === undefined) return cached
  if (cached?.metadata.uid === recorded.uid) return cached
  const live = await cluster.get('PersistentVolumeClaim', { namespace, name: recorded.claim })
  if (live !== undefined && owner !== undefined && isUnderAnotherId(owner, live)) return undefined
  if (live !== undefined || cached === undefined || cached.metadata.name === recorded.claim) return live
  // The record may be of another object that had this name, whose status was put back.
  return ownerUidOf(cached) === uid && systemIdentifierOf(cached) !== undefined ? cached : undefined
}

/**
 * The volumes behind the claim and the record: from the cluster itself where one seems to be gone or going, since a stop of
 * Postgres may depend on it.
 */
async function volumesOf(
  caches: Caches,
  cluster: Cluster,
  { metadata, status }: Instance,
  claim: PersistentVolumeClaim | undefined,
  owner: Owner | undefined,
): Promise<Volumes> {
  const recorded = status?.volume
  const cached = (name: string | undefined) => (name === undefined ? undefined : caches.volumes.get({ name }))
  const boundName = claim?.spec?.volumeName
  const isOurs = recorded === undefined || claim?.metadata.uid === recorded.uid
  const isGoing = [claim, cached(boundName)].some(object => object?.metadata.deletionTimestamp !== undefined)
  const isCalm = isOurs && !isGoing
  const read = async (name: string | undefined): Promise<VolumeFacts | undefined> => {
    if (name === undefined) return undefined
    const volume = (isCalm && cached(name)) || (await cluster.get('PersistentVolume', { name }))
    if (volume === undefined || (owner !== undefined && isUnderAnotherId(owner, volume))) return undefined
    const facts = volumeFacts(volume, owner)
    // Volumes are of no namespace: one that a claim elsewhere has is not this database's, though a status that was copied names it.
    const isNamed = recorded !== undefined && claim?.metadata.uid === recorded.uid && boundName === name
    return !isNamed && facts.claim?.startsWith(`${metadata.namespace}/`) === false ? undefined : facts
  }
  const bound = await read(boundName)
  const known = recorded?.volumeName === boundName ? bound : await read(recorded?.volumeName)
  const isCopied = recorded !== undefined && (bound?.isGoing === true || known?.isGoing === true)
  const copy = isCopied ? await read(copyName(recorded.uid)) : undefined
  return { bound, recorded: known, copy: copy?.isGoing ? undefined : copy }
}

/** What a credentials Secret says, and its passwords where the key opens them. */
export function credentialsOf(
  secret: Secret | undefined,
  { sealingKey }: InstallationKeys,
  incarnation: number,
): { facts: CredentialsFacts; passwords?: Passwords } {
  if (secret === undefined || sealingKey === undefined) return { facts: { state: 'absent' } }
  try {
    const { uid = '', creationTimestamp: mintedAt = '' } = secret.metadata
    const passwords = openCredentials(secret, sealingKey)
    const said = rotationsOf(secret)
    const rotations = Object.fromEntries(databaseRoles.map(role => [role, said[role]?.rotation]))
    const previous = databaseRoles.filter(role => secret.data?.[previousPassword(role)] !== undefined)
    // The roles of a volume that was restored have the passwords of then, by whatever mark: they get those of now.
    const named = incarnation === 1 ? uid : `${uid}/${incarnation}`
    return {
      facts: {
        ...{ state: 'readable', mark: passwordsMark(named, rotations), mintedAt, rotations, previous },
        ...(secret.immutable === true && { isImmutable: true }),
      },
      passwords,
    }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return { facts: { state: 'unreadable', message: error.message } }
  }
}

function certificateOf(
  secret: Secret | undefined,
  { authority }: InstallationKeys,
  names: ReturnType<typeof desiredNames> | undefined,
  now: () => number,
): CertificateFacts {
  if (secret === undefined) return { state: 'absent' }
  const facts = { fingerprint: fingerprintOf(secret), issuedAt: issuedAt(secret), isLoaded: isLoaded(secret) }
  // Without its region nothing says what names it should have: it stays as it is.
  const isGood = !authority || !names || (holdsMonitor(secret) && isGoodCertificate(secret, authority, names, now))
  return { state: isGood ? 'good' : 'due', ...facts }
}

/**
 * The gateways' Leases are listed from the cluster each time, as routes/route.ts asks for: after the route was written.
 * They are not listed for a route that is at rest; whether a gateway can listen on its port the cached Leases say.
 */
async function routeOf(
  { cluster, gateways }: { cluster: Cluster; gateways: readonly GatewayLease[] },
  instance: Instance,
  isAtRest: boolean,
  configMap: Children['route'],
  now: () => number,
): Promise<RouteFacts | undefined> {
  const port = configMap && portOfRoute(configMap.metadata.name)
  if (configMap === undefined || port === undefined) return undefined
  const facts = { port, route: readRoute(configMap).route }
  if (isAtRest && conditionOf(instance.status, 'EndpointReady')?.status === 'True')
    return { ...facts, acknowledged: false, waitingFor: [], refused: portRefusedBy(port, gateways, now()).length > 0 }
  const { items } = await cluster.list('Lease', {
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent },
  })
  const { done, waitingFor } = acknowledged(configMap.metadata.resourceVersion ?? '', items, now())
  return { ...facts, acknowledged: done, waitingFor, refused: portRefusedBy(port, items, now()).length > 0 }
}
