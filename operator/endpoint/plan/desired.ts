/** The desired state of an endpoint's objects, as far as its region is known. */
import type { Draft } from '../../../cluster/index.ts'
import { type Endpoint, labels } from '../../../crds/index.ts'
import { archiveOf } from '../../member/archive/settings.ts'
import { archiveSourceOf } from '../../member/archive/source.ts'
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
  /** Absent if the installation requests no budget. */
  disruptionBudget: Draft<'PodDisruptionBudget'> | undefined
  /** The route for the reserved port. Absent while no port is reserved. */
  route: Draft<'ConfigMap'> | undefined
  rules: string[]
  domain: string | undefined
  endpoint: Endpoint | undefined
  certificate: ServerNames | undefined
}

/**
 * Returns which pods the Service selects. A restored incarnation accepts no clients until its data are the database's
 * own. Until then the Service selects the previous incarnation, so that clients retry and are not refused.
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

/**
 * `isOpen`: whether to apply the allowlist; otherwise the gateway admits no client. `acceptsClients`: whether the
 * serving member accepts clients.
 */
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
    networkPolicy: stamped(
      networkPolicyDraft(owner, podSettings, {
        archives: archiveOf(instance, podSettings) !== undefined,
        recovers: archiveSourceOf(instance) !== undefined,
      }),
    ),
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
