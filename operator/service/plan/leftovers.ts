/**
 * Deletions while the owner exists: workloads that no longer serve, and all objects of services that are not requested.
 * Pure.
 */
import type { AnyObject, Deployment, KindName } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { ServiceAction } from '../actions.ts'
import { serviceTypes } from '../names.ts'
import type { ObservedServices, ObservedWorkload, ServicePod } from '../observed.ts'
import { type Rollout, switchedAt } from './rollout.ts'

/** How long a Secret with keys may exist that no spec names. The API writes the Secret before the spec. */
const unreferencedKeysMs = 15 * 60_000

const ownFinalizers = new Set(['foregroundDeletion', 'orphan'])

type Leftovers = {
  actions: ServiceAction[]
  /** Whether objects remain whose deletion must be complete before the owner's operation ends. */
  isClearing: boolean
  requeueAt: number | undefined
}

const isLive = (object: Pick<AnyObject, 'metadata'>): boolean => object.metadata.deletionTimestamp === undefined

const referenceTo = ({ metadata }: Pick<AnyObject, 'metadata'>) => ({
  ...{ name: metadata.name, namespace: metadata.namespace ?? '', uid: metadata.uid ?? '' },
})

export const remove = (kind: KindName, object: AnyObject | undefined): ServiceAction[] =>
  object === undefined || !isLive(object) ? [] : [{ do: 'delete', kind, ...referenceTo(object) }]

export function leftovers(
  services: ObservedServices,
  owner: Owner,
  rollouts: readonly Rollout[],
  { suspended, now }: { suspended: boolean; now: number },
): Leftovers {
  const { objects, requested } = services
  const wanted = new Set(requested.map(({ config }) => config.serviceType))
  const unwanted = serviceTypes.filter(type => !wanted.has(type))
  const stopping = objects.workloads.filter(({ type }) => suspended || !wanted.has(type))
  const replaced = suspended ? { actions: [], requeueAt: undefined } : replacedWorkloads(services, rollouts, now)
  const keys = unreferencedKeys(services, now)
  const isClearing = stopping.length > 0 || unwanted.some(type => objects.addresses[type] !== undefined)
  return {
    actions: [
      // The gateways must stop sending requests to a service before its pods are stopped.
      ...(suspended || !isStillRouted(services, unwanted)
        ? [
            ...stopping.flatMap(({ deployment }) => remove('Deployment', deployment)),
            ...unwanted.flatMap(type => [
              ...remove('Service', objects.addresses[type]),
              ...remove('NetworkPolicy', objects.networkPolicies[type]),
              ...remove('PodDisruptionBudget', objects.disruptionBudgets[type]),
            ]),
          ]
        : []),
      ...replaced.actions,
      ...configurations(services, rollouts, suspended),
      ...unrequestedTokens(services, owner),
      ...keys.actions,
    ],
    isClearing,
    requeueAt: earliest(replaced.requeueAt, keys.requeueAt),
  }
}

/** Whether gateways may still send requests to a service of one of these types. */
const isStillRouted = ({ route }: ObservedServices, types: readonly string[]): boolean =>
  route?.route?.services.some(({ service }) => types.includes(service)) === true

/** Workloads that are neither the serving nor the desired one. */
function replacedWorkloads(
  { objects, installation }: ObservedServices,
  rollouts: readonly Rollout[],
  now: number,
): Pick<Leftovers, 'actions' | 'requeueAt'> {
  const { settleMs } = installation.settings
  const found = rollouts.flatMap(({ desired, serving, selected }) => {
    // Only after the cluster has the selector that this pass wants.
    if (selected !== serving) return []
    const retained = [desired.digest, serving]
    const others = objects.workloads.filter(({ type, digest }) => type === desired.type && !retained.includes(digest))
    const since = switchedAt(objects.addresses[desired.type]) ?? 0
    const dueAt = since > now ? now + settleMs : since + settleMs
    return others.filter(({ deployment }) => isLive(deployment)).map(workload => ({ workload, dueAt }))
  })
  const due = found.filter(({ dueAt }) => dueAt <= now).map(({ workload }) => deletion(workload))
  return { actions: due, requeueAt: nextOf(found, now) }
}

/** When the next of these deletions is due. */
const nextOf = (found: readonly { dueAt: number }[], now: number): number | undefined =>
  earliest(...found.map(({ dueAt }) => (dueAt > now ? dueAt : undefined)))

const deletion = ({ type, digest, deployment }: ObservedWorkload): ServiceAction => ({
  ...{ do: 'delete-service-workload', type, digest },
  ...referenceTo(deployment),
})

/** Secrets that no Deployment and no pod mounts, and that no planned Deployment needs. */
function configurations(
  { objects, pods }: ObservedServices,
  rollouts: readonly Rollout[],
  suspended: boolean,
): ServiceAction[] {
  return objects.configurations
    .filter(({ type, digest, secret }) => {
      const is = (other: { type: string | undefined; digest: string | undefined }) =>
        other.type === type && other.digest === digest
      const isDesired = !suspended && rollouts.some(({ desired }) => is(desired))
      return isLive(secret) && !isDesired && !objects.workloads.some(is) && !pods.some(is)
    })
    .map(({ type, digest, secret }) => ({
      ...{ do: 'delete-service-configuration', type, digest },
      ...referenceTo(secret),
    }))
}

function unrequestedTokens({ objects, requested }: ObservedServices, owner: Owner): ServiceAction[] {
  const retained = new Set(
    requested.flatMap(({ config: { serviceId, serviceType } }) => [
      childNames.serviceSecret(owner.id, serviceId),
      ...(serviceType === 'mcp' ? [childNames.serviceState(owner.id, serviceId)] : []),
    ]),
  )
  return objects.minted
    .filter(({ metadata }) => !retained.has(metadata.name))
    .flatMap(secret => remove('Secret', secret))
}

/** The operator deletes them by age, so not while the clock is uncertain. */
function unreferencedKeys(
  { objects, requested, isClockTrusted }: ObservedServices,
  now: number,
): Pick<Leftovers, 'actions' | 'requeueAt'> {
  const retained = new Set(requested.map(({ config }) => config.secret?.name))
  const found = objects.keys
    .filter(secret => isLive(secret) && !retained.has(secret.metadata.name))
    .map(secret => ({ secret, dueAt: Date.parse(secret.metadata.creationTimestamp ?? '') + unreferencedKeysMs }))
  const due = isClockTrusted ? found.filter(({ dueAt }) => dueAt <= now) : []
  return { actions: due.flatMap(({ secret }) => remove('Secret', secret)), requeueAt: nextOf(found, now) }
}

/** Other clients' finalizers on a Deployment. Kubernetes removes its own finalizers. */
function finalizersOf({ metadata: { name, deletionTimestamp, finalizers = [] } }: Deployment): string[] {
  const foreign = finalizers.filter(finalizer => !ownFinalizers.has(finalizer))
  return deletionTimestamp === undefined || foreign.length === 0
    ? []
    : [`Deployment ${name} waits for its finalizers: ${foreign.join(', ')}`]
}

const removePod = ({ name, live }: ServicePod): ServiceAction[] =>
  live === undefined ? [] : [{ do: 'delete', kind: 'Pod', name, ...live }]

/**
 * Deletes all services with their owner: first routes and Services. Then it waits for the pods, which finish their
 * requests.
 */
export const servicesTeardown = ({
  objects,
  pods,
}: ObservedServices): { actions: ServiceAction[]; isDone: boolean; message: string } => ({
  actions: [
    ...objects.routes.flatMap(route => remove('ConfigMap', route)),
    ...objects.workloads.flatMap(({ deployment }) => remove('Deployment', deployment)),
    // A deletion of the Deployment also deletes its pods, except a pod whose labels another client changed.
    ...(objects.workloads.length === 0 ? pods.flatMap(removePod) : []),
  ],
  isDone: objects.routes.length === 0 && objects.workloads.length === 0 && pods.length === 0,
  message: ['stopping the services', ...objects.workloads.flatMap(({ deployment }) => finalizersOf(deployment))].join(
    '; ',
  ),
})
