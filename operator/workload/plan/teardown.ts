/**
 * Deletes a Postgres: the endpoint is closed, and that is acknowledged, before the workload stops; the volume is
 * deleted when no pod can write to it, even if it was retained; the Secrets and the route after that. Everything is
 * deleted by uid.
 */
import type { AnyObject, KindName } from '../../../cluster/index.ts'
import { gatewaysClosedAfterMs } from '../../../routes/route.ts'
import { ownedAt } from '../../children/owned.ts'
import { routeDraft } from '../../endpoint/route.ts'
import { lostNode } from '../../member/pod/node.ts'
import { copyName } from '../../member/storage/persistent-volume.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import { servicesTeardown } from '../../service/plan/leftovers.ts'
import type { Action } from '../actions.ts'
import type { Observed, ObservedObjects } from '../observed.ts'

export type Teardown = {
  actions: Action[]
  /** The present wait, as a message. */
  message: string
  progress: number
  /** According to the caches, no object is left. */
  isDone?: true
}

export const remove = (kind: KindName, objects: readonly AnyObject[]): Action[] =>
  objects
    .filter(object => object.metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => ({
      do: 'delete',
      kind,
      name: metadata.name,
      namespace: metadata.namespace ?? '',
      uid: metadata.uid ?? '',
    }))

/**
 * If no gateway is alive, none can acknowledge that the endpoint is closed. The last one may have died a moment ago,
 * and may admit clients until its Lease ends: the deletion waits that long, and no longer.
 */
function awaitedGateways({ instance, route }: Observed, now: number): string | undefined {
  if (route === undefined || route.acknowledged) return undefined
  if (route.waitingFor.length > 0) return 'waiting for every gateway to close the endpoint'
  const since = Date.parse(instance.metadata.deletionTimestamp ?? '')
  return now - since < gatewaysClosedAfterMs
    ? 'no gateway is alive: waiting until the last one has closed the endpoint'
    : undefined
}

/**
 * Without an owner (the id was never assigned) nothing was ever created, and only objects with the owner's uid label
 * are searched. `copies`: deleted after the volume, and before the credentials. `outlives`: credentials that remain.
 */
export function teardown(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
  copies: () => Teardown | undefined = () => undefined,
  outlives: (object: AnyObject) => boolean = () => false,
): Teardown {
  const { owned, route, children } = observed
  const services = servicesTeardown(observed.services)
  if (!services.isDone) return { actions: services.actions, message: services.message, progress: 15 }
  if (owner && route && children.route) {
    const rules = route.route?.rules
    if (rules === undefined || rules.length > 0) {
      const draft = stamped(routeDraft(owner, route.port, []))
      return { actions: [{ do: 'apply', kind: 'ConfigMap', draft }], message: 'closing the endpoint', progress: 20 }
    }
    const awaited = awaitedGateways(observed, now)
    if (awaited !== undefined && hasWorkload(observed)) return { actions: [], message: awaited, progress: 30 }
  }
  // Before the pod is deleted, and with it a claim and a volume that only it protects.
  const copyFirst = owner === undefined ? [] : copiedFirst(observed, owner)
  if (copyFirst.length > 0) return { actions: copyFirst, message: 'retaining the volume', progress: 40 }
  const workload = [
    ...removeAt(owned, 'workload'),
    // Pods are deleted with their StatefulSet; a remaining one is deleted here.
    ...(owned.statefulSets.length === 0 ? remove('Pod', owned.pods) : []),
  ]
  if (hasWorkload(observed)) {
    const stopping = route?.acknowledged === false ? 'stopping Postgres; no gateway is alive' : 'stopping Postgres'
    const message = lostNode(observed.node)?.message ?? stopping
    return { actions: workload, message, progress: 50 }
  }
  if (remainsAt(owned, 'volume'))
    return { actions: removeAt(owned, 'volume'), message: 'deleting the volume', progress: 70 }
  // If two objects name one storage, deleting one may retain it for the other.
  if (owned.volumes.some(({ isTerminating, policyBefore }) => isTerminating && policyBefore !== undefined))
    return { actions: [], message: 'waiting for the deletion of the old volume', progress: 75 }
  const givenBackActions = givenBack(observed)
  if (givenBackActions.length > 0)
    return { actions: givenBackActions, message: 'deleting the retained data', progress: 80 }
  const copyActions = copies()
  if (copyActions !== undefined) return copyActions
  const rest = ownedAt(owned, 'rest').map(({ kind, objects }) => ({
    kind,
    objects: objects.filter(each => !outlives(each)),
  }))
  if (rest.some(({ objects }) => objects.length > 0))
    return {
      actions: rest.flatMap(({ kind, objects }) => remove(kind, objects)),
      message: 'deleting credentials and address',
      progress: 90,
    }
  return { actions: [], message: 'checking that no object is left', progress: 95, isDone: true }
}

/**
 * The storage of a volume that the operator retained would remain when its own object is deleted: a second object is
 * created, with which the storage is deleted.
 */
function copiedFirst({ instance, owned, volumes: { bound, recorded } }: Observed, owner: Owner): Action[] {
  const { uid } = instance.status?.volume ?? {}
  // The volumes of a claim that is being deleted are read from the cluster: a cache may not know yet that they were
  // retained.
  const read = [bound, recorded].filter(volume => volume !== undefined)
  const others = owned.volumes.filter(volume => read.every(({ uid: known }) => known !== volume.uid))
  const volumes = [...new Map([...read, ...others].map(volume => [volume.uid, volume])).values()]
  if (uid === undefined || volumes.some(({ name }) => name === copyName(uid))) return []
  return volumes
    .filter(
      ({ isTerminating, policyBefore, claimUid }) => isTerminating && policyBefore !== undefined && claimUid === uid,
    )
    .map(volume => ({ do: 'copy-volume', from: volume.name, uid: volume.uid, name: copyName(uid), owner }))
}

/**
 * A retained volume is deleted as its storage class specifies, now that its claim is deleted. Nothing waits for that.
 */
const givenBack = ({ instance, owned: { volumes } }: Observed): Action[] =>
  volumes
    .filter(({ isTerminating, policyBefore }) => !isTerminating && policyBefore !== undefined)
    .map(({ name, uid }) => {
      const claimUid = instance.status?.volume?.uid ?? instance.metadata.uid
      return { do: 'change-volume', name, uid, change: { to: 'give-back', claimUid } }
    })

const hasWorkload = ({ owned }: Observed): boolean => owned.pods.length > 0 || remainsAt(owned, 'workload')

type Stage = Parameters<typeof ownedAt>[1]

const removeAt = (owned: ObservedObjects, stage: Stage): Action[] =>
  ownedAt(owned, stage).flatMap(({ kind, objects }) => remove(kind, objects))

/** Includes objects that are being deleted already. */
const remainsAt = (owned: ObservedObjects, stage: Stage): boolean =>
  ownedAt(owned, stage).some(({ objects }) => objects.length > 0)
