/**
 * Gathers what a pass needs to know of one owner's Postgres: its member, its endpoint, and everything else that carries the owner's
 * mark or id.
 */
import type { AnyObject } from '../../cluster/index.ts'
import { firstMember, labels, systemNamespace } from '../../crds/index.ts'
import { routeComponent } from '../../routes/route.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import type { Caches } from '../caches.ts'
import { isStray } from '../children/strays.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { observeEndpoint } from '../endpoint/observe.ts'
import type { AskedRotations } from '../endpoint/observed.ts'
import type { InstallationKeys } from '../keys.ts'
import { type LearntOfMember, type MemberRequest, type Observer, observeMember } from '../member/observe.ts'
import { volumeFacts } from '../member/storage/persistent-volume.ts'
import { ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'
import type { Observed, Remains } from './observed.ts'

/** Of a kind whose objects are deleted by their age. */
export type GuardedObserver = Observer & { clock: ClockGuard }

/** What a pass knows, and the passwords, which the plan does not get to see. */
export type Observation<O extends Observed = Observed> = { observed: O; passwords: Passwords | undefined }

/** What was learnt of the instance before, which no object says. `isCutOff`: gateways cannot connect to a Postgres that the operator reaches. */
export type Learnt = LearntOfMember & { isCutOff: boolean }

type InstanceRequest = Omit<MemberRequest, 'number'> & {
  rotations?: AskedRotations | undefined
  /** Everything that is marked as the owner's, or that is nobody's under its id. */
  remains: Remains
}

export async function observeInstance(
  observer: Observer,
  { rotations, remains, ...request }: InstanceRequest,
  keys: InstallationKeys,
  learnt: Learnt,
): Promise<Observation<Observed>> {
  const { caches, cluster, now } = observer
  const { observed: member, unlabelled } = await observeMember(
    observer,
    { ...request, number: firstMember, objects: remains },
    learnt,
  )
  const gateways = () => caches.gateways.list()
  const endpoint = await observeEndpoint({ cluster, gateways, now }, { member, rotations, objects: remains, keys })
  return {
    observed: {
      ...member,
      ...endpoint.observed,
      children: { ...member.children, ...endpoint.observed.children },
      keys: {
        sealingKey: keys.sealingKey !== undefined,
        authority: keys.authority !== undefined,
        isChanging: keys.authority?.isChanging === true,
      },
      remains: unlabelled === undefined ? remains : { ...remains, pods: [...remains.pods, unlabelled] },
      isCutOff: learnt.isCutOff,
    },
    passwords: endpoint.passwords,
  }
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
