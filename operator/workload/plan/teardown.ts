/**
 * Taking a Postgres away: the endpoint is closed, and that is acknowledged, before the workload stops; the volume goes when
 * no pod can write to it, also one that was retained; the Secrets and the route after that. Everything is deleted by uid.
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
  /** What is being waited for, for people. */
  message: string
  progress: number
  /** As far as the caches know, nothing is left. */
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
 * Where no gateway lives there is nobody to acknowledge that the endpoint is closed. The last one may have died a moment
 * ago, with sessions that it lets in until its Lease would have ended: so long is waited, and no longer.
 */
function awaitedGateways({ instance, route }: Observed, now: number): string | undefined {
  if (route === undefined || route.acknowledged) return undefined
  if (route.waitingFor.length > 0) return 'waiting for every gateway to close the endpoint'
  const since = Date.parse(instance.metadata.deletionTimestamp ?? '')
  return now - since < gatewaysClosedAfterMs
    ? 'no gateway lives: waiting until the last one must have closed the endpoint'
    : undefined
}

/**
 * Without an owner (the id was never settled) nothing was ever made, and only what is marked as ours is looked for.
 * `copies`: what goes once the volume has gone, and before the credentials.
 */
export function teardown(
  observed: Observed,
  owner: Owner | undefined,
  now: number,
  copies: () => Teardown | undefined = () => undefined,
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
  // Before the pod goes, and with it a claim and a volume that only it holds.
  const held = owner === undefined ? [] : copiedFirst(observed, owner)
  if (held.length > 0) return { actions: held, message: 'keeping hold of the volume', progress: 40 }
  const workload = [
    ...removeAt(owned, 'workload'),
    // Pods go with their StatefulSet; one that was left behind goes here.
    ...(owned.statefulSets.length === 0 ? remove('Pod', owned.pods) : []),
  ]
  if (hasWorkload(observed)) {
    const stopping = route?.acknowledged === false ? 'stopping Postgres; no gateway lives' : 'stopping Postgres'
    const message = lostNode(observed.node)?.message ?? stopping
    return { actions: workload, message, progress: 50 }
  }
  if (isLeftAt(owned, 'volume'))
    return { actions: removeAt(owned, 'volume'), message: 'deleting the volume', progress: 70 }
  // Storage that two objects name may be kept for the one when the other goes.
  if (owned.volumes.some(({ isTerminating, policyBefore }) => isTerminating && policyBefore !== undefined))
    return { actions: [], message: 'waiting for the old volume to go', progress: 75 }
  const kept = givenBack(observed)
  if (kept.length > 0) return { actions: kept, message: 'deleting the data that were kept', progress: 80 }
  const left = copies()
  if (left !== undefined) return left
  if (isLeftAt(owned, 'rest'))
    return { actions: removeAt(owned, 'rest'), message: 'deleting credentials and address', progress: 90 }
  return { actions: [], message: 'making sure that nothing is left', progress: 95, isDone: true }
}

/**
 * A volume that we retained, and whose own object is going, would leave its storage behind: there is to be a second object, by
 * which it is deleted.
 */
function copiedFirst({ instance, owned, volumes: { bound, recorded } }: Observed, owner: Owner): Action[] {
  const { uid } = instance.status?.volume ?? {}
  // Those of a claim that goes are read from the cluster: a cache may not know yet that they were retained.
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

/** What was retained goes the way that its storage class wants, now that its claim is gone. Nothing waits for that. */
const givenBack = ({ instance, owned: { volumes } }: Observed): Action[] =>
  volumes
    .filter(({ isTerminating, policyBefore }) => !isTerminating && policyBefore !== undefined)
    .map(({ name, uid }) => {
      const claimUid = instance.status?.volume?.uid ?? instance.metadata.uid
      return { do: 'change-volume', name, uid, change: { to: 'give-back', claimUid } }
    })

const hasWorkload = ({ owned }: Observed): boolean => owned.pods.length > 0 || isLeftAt(owned, 'workload')

type Stage = Parameters<typeof ownedAt>[1]

const removeAt = (owned: ObservedObjects, stage: Stage): Action[] =>
  ownedAt(owned, stage).flatMap(({ kind, objects }) => remove(kind, objects))

/** Also what is being deleted already. */
const isLeftAt = (owned: ObservedObjects, stage: Stage): boolean =>
  ownedAt(owned, stage).some(({ objects }) => objects.length > 0)
