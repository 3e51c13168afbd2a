/** The services' route: one route for all services of an owner, at its domain. Pure. */

import { canonicalJson } from '../../../crds/index.ts'
import type { HttpService } from '../../../routes/route.ts'
import { httpRouteName } from '../../../routes/route.ts'
import { applyIfChanged } from '../../children/drift.ts'
import type { Drifts } from '../../children/drift-history.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { ServiceAction } from '../actions.ts'
import type { ServiceType } from '../configuration/index.ts'
import type { ObservedServices, RequestedService } from '../observed.ts'
import { httpRouteDraft, httpServiceOf } from '../route.ts'
import { readyPods } from '../workloads.ts'
import { remove } from './leftovers.ts'
import type { Rollout } from './rollout.ts'

/** The services in the route. Empty if the route must not point to a service. */
function routedServices(
  services: ObservedServices,
  owner: Owner,
  rollouts: readonly Rollout[],
  suspended: boolean,
): HttpService[] {
  if (services.installation.image === undefined) return []
  return services.requested.map(request =>
    httpServiceOf(owner, request, suspended ? 'suspended' : unavailability(services, request, rollouts)),
  )
}

/**
 * The answer of a gateway until a service has served for the first time. After that, the gateway itself detects whether
 * the service answers.
 */
function unavailability(
  { route, objects }: ObservedServices,
  { config }: RequestedService,
  rollouts: readonly Rollout[],
): HttpService['unavailable'] {
  const type = config.serviceType
  const own = objects.workloads.filter(workload => workload.type === type)
  const selected = rollouts.find(({ desired }) => desired.type === type)?.selected
  const serves = own.some(({ digest, deployment }) => digest === selected && readyPods(deployment) > 0)
  const known = route?.route?.services.find(({ service }) => service === type)
  const wasServing = known !== undefined && known.unavailable === undefined && own.length > 0
  return serves || wasServing ? undefined : 'starting'
}

/** Whether the service has never served at its address. */
export const isUnserved = ({ route }: ObservedServices, type: ServiceType): boolean =>
  route?.route?.services.find(({ service }) => service === type)?.unavailable === 'starting'

export function routeActions(
  observed: { services: ObservedServices; drifts: Drifts },
  owner: Owner,
  rollouts: readonly Rollout[],
  suspended: boolean,
): ServiceAction[] {
  const { services } = observed
  const { address, objects } = services
  const routed = routedServices(services, owner, rollouts, suspended)
  const host = routed.length > 0 ? address?.host : undefined
  const name = host && httpRouteName(host)
  const others = objects.routes.filter(({ metadata }) => metadata.name !== name)
  const found = objects.routes.find(({ metadata }) => metadata.name === name)
  return [
    ...(host === undefined
      ? []
      : applyIfChanged(observed, 'ConfigMap', found, stamped(httpRouteDraft(owner, host, routed)))),
    ...others.flatMap(route => remove('ConfigMap', route)),
  ]
}

/** Whether every gateway has applied the desired route. Always true if the region has no HTTPS. */
export function isRouted(
  services: ObservedServices,
  owner: Owner,
  rollouts: readonly Rollout[],
  suspended: boolean,
): boolean {
  const { address, route } = services
  const routed = routedServices(services, owner, rollouts, suspended)
  if (address === undefined || routed.length === 0) return true
  return route?.acknowledged === true && canonicalJson(route.route?.services ?? []) === canonicalJson(routed)
}
