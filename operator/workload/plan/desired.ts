/** What every child of a database should be, as far as its size and region are known. */
import type { Draft } from '../../../cluster/index.ts'
import { type Endpoint, labels } from '../../../crds/index.ts'
import type { ServerNames } from '../../endpoint/certificate.ts'
import { disruptionBudgetDraft } from '../../endpoint/disruption-budget.ts'
import { desiredNames, endpointOf, externalAddressOf } from '../../endpoint/external-address.ts'
import { networkPolicyDraft } from '../../endpoint/network-policy.ts'
import { maskedRules, routeDraft } from '../../endpoint/route.ts'
import { serviceDraft } from '../../endpoint/service.ts'
import { type Newest, type Restarts, type RestartsOf, templateMarks } from '../../member/pod/plan/restart-marks.ts'
import { type SizeState, sizeState } from '../../member/pod/plan/size.ts'
import { referenceOf, withTemplate } from '../../member/pod/plan/template.ts'
import { statefulSetDraft, templateAnnotation, withMarks } from '../../member/pod/stateful-set.ts'
import { configurationAnnotation, configurationDraft } from '../../member/postgres/configuration.ts'
import { presentAnswer } from '../../member/postgres/plan/health.ts'
import { claimDraft, isAdopted } from '../../member/storage/claim.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { Observed } from '../observed.ts'

export type Desired = Newest & {
  size: SizeState
  service: Draft<'Service'>
  networkPolicy: Draft<'NetworkPolicy'>
  /** Absent where the installation asks for none. */
  disruptionBudget: Draft<'PodDisruptionBudget'> | undefined
  claim: Draft<'PersistentVolumeClaim'> | undefined
  configuration: Draft<'ConfigMap'> | undefined
  statefulSet: Draft<'StatefulSet'> | undefined
  restarts: Restarts
  /** For the port it holds; absent while it holds none. */
  route: Draft<'ConfigMap'> | undefined
  rules: string[]
  domain: string | undefined
  endpoint: Endpoint | undefined
  certificate: ServerNames | undefined
}

/**
 * The incarnation that the Service leads to. A restored one is a copy that lets in nobody until it has been made the database's own:
 * until then the Service leads where it did, to nobody, so that clients are told to come again and not that they may not.
 */
function ledTo(observed: Observed): number {
  const { children, incarnation } = observed
  const present = Number(children.service?.spec?.selector?.[labels.incarnation])
  const answer = presentAnswer(observed)
  const isOpen = answer?.state === 'answered' && answer.closed === undefined
  return Number.isInteger(present) && !isOpen ? present : incarnation
}

/**
 * `open`: the allowlist is in force, else the endpoint is closed. `stopped`: no pod is to run. `systemIdentifier`: of
 * the data on the claim, once it is known.
 */
export function desiredOf(
  observed: Observed,
  owner: Owner,
  { open, stopped, systemIdentifier }: { open: boolean; stopped: boolean; systemIdentifier: string | undefined },
  restartsOf: RestartsOf,
): Desired {
  const { instance, incarnation, region, podSettings } = observed
  const { spec, status, dataSource: source, awaitsSource } = instance
  const size = sizeState(observed)
  const { effective, shape } = size
  const rules = open ? maskedRules(spec) : []
  const outside = region && externalAddressOf(owner, region)
  const port = observed.route?.port
  const workload = { owner, incarnation, size: effective, pgVersion: spec.pgVersion }
  // A version that is on offer no more goes on with the image it has.
  const image = observed.image ?? referenceOf(observed.children.statefulSet?.spec?.template)
  // On a claim that another database had there may be data, which only the volume knows.
  const { claim } = observed.children
  const isFirst = status?.volume === undefined && !observed.isStrayClaim && !(claim && isAdopted(claim))
  const origin = isFirst ? (source ?? (awaitsSource ? undefined : 'initialise')) : undefined
  const configuration = shape && configurationDraft({ ...workload, shape, origin })
  const volume = status?.volume?.uid ?? observed.children.claim?.metadata.uid
  const newest =
    shape && volume && image
      ? statefulSetDraft({ ...workload, image, shape, volume, suspended: stopped, pods: podSettings })
      : undefined
  const newestTemplate = newest?.spec?.template.metadata?.annotations?.[templateAnnotation]
  const configurationDigest = configuration?.metadata.annotations?.[configurationAnnotation]
  const restarts = restartsOf({ newestTemplate, image, configurationDigest })
  const marked = newest && withMarks(newest, templateMarks(observed, restarts))
  return {
    size,
    networkPolicy: stamped(networkPolicyDraft(owner, podSettings)),
    disruptionBudget: podSettings.disruptionBudget ? stamped(disruptionBudgetDraft(owner, incarnation)) : undefined,
    service: stamped(serviceDraft(owner, ledTo(observed))),
    claim:
      shape &&
      region &&
      claimDraft(owner, incarnation, shape, region, { systemIdentifier, source, node: observed.copyNode }),
    configuration: configuration && stamped(configuration),
    configurationDigest,
    statefulSet: marked && stamped(withTemplate(observed, marked)),
    newestTemplate,
    image,
    restarts,
    route: port === undefined ? undefined : stamped(routeDraft(owner, port, rules)),
    rules,
    domain: outside?.domain,
    endpoint: outside && port !== undefined ? endpointOf(outside, port) : undefined,
    certificate: region && desiredNames(owner, region),
  }
}
