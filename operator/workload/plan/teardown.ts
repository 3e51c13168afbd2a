/**
 * Deletes a Postgres in this order. First the operator closes the endpoint, and the gateways acknowledge that. Then it
 * stops the workload. It deletes the volume when no pod can write to it, even if the volume was retained. Last, it
 * deletes the Secrets and the route. It deletes everything by uid.
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
  /** What the deletion waits for, as a message. */
  message: string
  progress: number
  /** The caches contain no object of the owner any more. */
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
 * If no gateway is alive, none can acknowledge that the endpoint is closed. The last gateway may have died a moment
 * ago, and may still admit clients until its Lease expires. The deletion waits that long.
 */
function awaitedGateways({ instance, route }: Observed, now: number): string | undefined {
  if (route === undefined || route.acknowledged) return undefined
  if (route.waitingFor.length > 0) return 'waiting for every gateway to close the endpoint'
  const since = Date.parse(instance.metadata.deletionTimestamp ?? '')
  return now - since < gatewaysClosedAfterMs
    ? "no gateway is running: waiting until the last gateway's Lease expires"
    : undefined
}

/**
 * Without an owner (the id was never assigned) the operator has created nothing. It then searches only for objects with
 * the owner's uid label. `copies`: are deleted after the volume and before the credentials. `outlives`: credentials
 * that are kept.
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
  // Before the pod is deleted: only the pod may delay the deletion of the claim and the volume.
  const copyFirst = owner === undefined ? [] : copiedFirst(observed, owner)
  if (copyFirst.length > 0) return { actions: copyFirst, message: 'retaining the volume', progress: 40 }
  const workload = [
    ...removeAt(owned, 'workload'),
    // A deletion of the StatefulSet also deletes its pods. This deletes a pod that remains.
    ...(owned.statefulSets.length === 0 ? remove('Pod', owned.pods) : []),
  ]
  if (hasWorkload(observed)) {
    const stopping = route?.acknowledged === false ? 'stopping Postgres; no gateway is running' : 'stopping Postgres'
    const message = lostNode(observed.node)?.message ?? stopping
    return { actions: workload, message, progress: 50 }
  }
  if (remainsAt(owned, 'volume'))
    return { actions: removeAt(owned, 'volume'), message: 'deleting the volume', progress: 70 }
  // If two objects name the same storage, the operator may have retained the storage only for the second object.
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
 * Creates a second object for a retained volume whose own object is being deleted. Otherwise the storage would remain
 * when that object is deleted. The storage is deleted with the second object.
 */
function copiedFirst({ instance, owned, volumes: { bound, recorded } }: Observed, owner: Owner): Action[] {
  const { uid } = instance.status?.volume ?? {}
  // Volumes of a claim that is being deleted are read from the cluster: a cache may not have their retention yet.
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
 * Restores the reclaim policy of a retained volume, whose claim is now deleted. The cluster then deletes the volume as
 * its storage class specifies. The deletion of the database does not wait for that.
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

/** Includes objects that are being deleted. */
const remainsAt = (owned: ObservedObjects, stage: Stage): boolean =>
  ownedAt(owned, stage).some(({ objects }) => objects.length > 0)
