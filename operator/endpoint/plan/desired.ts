/** What every object of an endpoint should be, as far as its region is known. */
import type { Draft } from '../../../cluster/index.ts'
import { type Endpoint, labels } from '../../../crds/index.ts'
import type { Serving } from '../../member/pod/addresses.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { ServerNames } from '../certificate.ts'
import { disruptionBudgetDraft } from '../disruption-budget.ts'
import { desiredNames, endpointOf, externalAddressOf } from '../external-address.ts'
import { networkPolicyDraft } from '../network-policy.ts'
import type { ObservedEndpoint } from '../observed.ts'
import { maskedRules, routeDraft } from '../route.ts'
import { serviceDraft } from '../service.ts'

export type DesiredEndpoint = {
  service: Draft<'Service'>
  networkPolicy: Draft<'NetworkPolicy'>
  /** Absent where the installation asks for none. */
  disruptionBudget: Draft<'PodDisruptionBudget'> | undefined
  /** For the port it holds; absent while it holds none. */
  route: Draft<'ConfigMap'> | undefined
  rules: string[]
  domain: string | undefined
  endpoint: Endpoint | undefined
  certificate: ServerNames | undefined
}

/**
 * Returns which pods the Service selects. A restored incarnation accepts no clients until its data are the database's own; until then
 * the Service selects the incarnation before it, so that clients retry instead of being refused.
 */
function selected(
  { children, incarnation }: ObservedEndpoint,
  { acceptsClients, isFoundByRole }: Omit<Opening, 'isOpen'>,
): Serving {
  const { selector } = children.service?.spec ?? {}
  const present = Number(selector?.[labels.incarnation])
  return Number.isInteger(present) && !acceptsClients && present !== incarnation
    ? { incarnation: present, byRole: selector?.[labels.role] !== undefined }
    : { incarnation, byRole: isFoundByRole }
}

/** `isOpen`: the allowlist is applied, else nobody is admitted. `acceptsClients`: the member that serves does. */
type Opening = { isOpen: boolean; acceptsClients: boolean; isFoundByRole: boolean }

export function desiredEndpoint(
  observed: ObservedEndpoint,
  owner: Owner,
  { isOpen, ...serving }: Opening,
): DesiredEndpoint {
  const { instance, incarnation, region, podSettings } = observed
  const rules = isOpen ? maskedRules(instance.spec) : []
  const outside = region && externalAddressOf(owner, region)
  const port = observed.route?.port
  return {
    networkPolicy: stamped(networkPolicyDraft(owner, podSettings)),
    disruptionBudget: podSettings.disruptionBudget
      ? stamped(disruptionBudgetDraft(owner, { incarnation, byRole: serving.isFoundByRole }))
      : undefined,
    service: stamped(serviceDraft(owner, selected(observed, serving))),
    route: port === undefined ? undefined : stamped(routeDraft(owner, port, rules)),
    rules,
    domain: outside?.domain,
    endpoint: outside && port !== undefined ? endpointOf(outside, port) : undefined,
    certificate: region && desiredNames(owner, region),
  }
}
