/** Plans the actions for an endpoint, and the findings for its conditions, from its observed state. Pure. */
import type { Secret } from '../../../cluster/index.ts'
import type { ChildAction } from '../../children/actions.ts'
import { applyIfChanged } from '../../children/drift.ts'
import type { Answered } from '../../member/postgres/answer.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import { type Component, childLabels, type Owner } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import type { EndpointAction } from '../actions.ts'
import type { ObservedEndpoint, ObservedPrerequisites } from '../observed.ts'
import { credentialsFinding } from './credentials.ts'
import { type DesiredEndpoint, desiredEndpoint } from './desired.ts'
import { areCredentialsLost } from './lost-credentials.ts'
import { rotation } from './rotation.ts'

/** The member that serves, or that should serve. */
type Serving = {
  answered: Answered
  /** Its data are lost, or belong to another database. */
  isFatal: boolean
  /** Its pods have their role label. */
  isFoundByRole: boolean
}

export type EndpointPlan = {
  desired: DesiredEndpoint
  findings: { CredentialsReady: Finding; EndpointReady: Finding }
  actions: (EndpointAction | ChildAction)[]
}

/** The state before any member has answered. */
export const nothingServes: Serving = { answered: undefined, isFatal: false, isFoundByRole: true }

export function planEndpoint(
  observed: ObservedEndpoint,
  owner: Owner,
  { answered, isFatal, isFoundByRole }: Serving,
): EndpointPlan {
  const isOpen = !isFatal && mayOpen(observed, answered)
  const acceptsClients = answered !== undefined && answered.closed === undefined
  const desired = desiredEndpoint(observed, owner, { isOpen, acceptsClients, isFoundByRole })
  return {
    desired,
    findings: {
      CredentialsReady: credentialsFinding(observed, answered),
      EndpointReady: endpointFinding(observed, desired),
    },
    actions: [
      ...secrets(observed, owner, desired),
      ...applyIfChanged(observed, 'Service', observed.children.service, desired.service),
      ...applyIfChanged(observed, 'NetworkPolicy', observed.children.networkPolicy, desired.networkPolicy),
      ...disruptionBudget(observed, desired.disruptionBudget),
      ...(isFatal ? [] : rotation(observed, answered)),
      ...address(observed, desired),
    ],
  }
}

/** Objects that the members' pods need: the Secrets that they mount, and the network policy. */
export function prerequisitesOf(observed: ObservedPrerequisites) {
  const { children, certificate } = observed
  const { credentials, networkPolicy } = children
  const isKnown = credentials !== undefined || areCredentialsLost(observed)
  return {
    isComplete: isKnown && children.certificate !== undefined && networkPolicy !== undefined,
    certificateIssuedAt: certificate.state === 'good' ? certificate.issuedAt : undefined,
  }
}

const works = (answer: Answered): boolean =>
  answer?.rolesInOrder === true && answer.login !== 'refused' && answer.closed === undefined

/**
 * Whether the operator may apply the allowlist. It must have recorded the volume, and observed that the roles are in
 * order. An endpoint that is already open stays open.
 */
function mayOpen(observed: ObservedEndpoint, answered: Answered): boolean {
  const { status, awaitsImport } = observed.instance
  if (status?.volume === undefined || awaitsImport !== undefined) return false
  return works(answered) || (observed.route?.route?.rules.length ?? 0) > 0
}

function endpointFinding(observed: ObservedEndpoint, desired: DesiredEndpoint): Finding {
  const { route, instance, children } = observed
  if (route === undefined)
    return observed.region
      ? no('PortPending', 'a port is being reserved')
      : no('RegionNotFound', `there is no region ${instance.spec.region}`)
  if (route.refused) return no('PortInUse', `port ${route.port} is used by another process on the gateway's machine`)
  if (!isUpToDate(children.route, desired.route)) return no('RulesPending', 'the rules are being applied')
  const keepsReady = observed.isAtRest && conditionOf(instance.status, 'EndpointReady')?.status === 'True'
  if (route.acknowledged || keepsReady)
    return yes('InForce', desired.rules.length > 0 ? 'the rules are applied' : 'no rules: the endpoint is closed')
  const whom = route.waitingFor.length > 0 ? route.waitingFor.join(', ') : 'a gateway: none is running'
  return no('AcknowledgementPending', `waiting for ${whom}`)
}

function secrets(observed: ObservedEndpoint, owner: Owner, desired: DesiredEndpoint): EndpointAction[] {
  const { credentials, certificate, children } = observed
  const actions: EndpointAction[] = []
  if (credentials.state === 'absent')
    actions.push({ do: areCredentialsLost(observed) ? 'find-credentials' : 'mint-credentials' })
  actions.push(...labelled(children.credentials, owner, 'credentials'), ...labelled(children.certificate, owner, 'tls'))
  const isNext = certificate.state === 'absent' || (certificate.state === 'due' && !certificate.isQueued)
  if (isNext && desired.certificate) actions.push({ do: 'issue-certificate', names: desired.certificate })
  return actions
}

/** Restores the labels of a Secret. */
function labelled(secret: Secret | undefined, owner: Owner, component: Component): EndpointAction[] {
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined) return []
  const labels = { ...secret.metadata.labels, ...childLabels(owner, component) }
  if (isUpToDate(secret.metadata.labels, labels)) return []
  return [{ do: 'relabel', secret: { ...secret, metadata: { ...secret.metadata, labels } } }]
}

/** Nothing waits for the budget: it restricts evictions, and the database serves without it. */
function disruptionBudget(observed: ObservedEndpoint, desired: DesiredEndpoint['disruptionBudget']): ChildAction[] {
  const { disruptionBudget: actual } = observed.children
  if (desired !== undefined) return applyIfChanged(observed, 'PodDisruptionBudget', actual, desired)
  if (actual === undefined || actual.metadata.deletionTimestamp !== undefined) return []
  const { name, namespace = '', uid = '' } = actual.metadata
  return [{ do: 'delete', kind: 'PodDisruptionBudget', name, namespace, uid }]
}

/** Reserves the port at once, closed. Applies the rules when the database accepts logins. */
function address(observed: ObservedEndpoint, desired: DesiredEndpoint): EndpointPlan['actions'] {
  const { instance, children, route, region } = observed
  if (!region) return []
  if (!route || !children.route || !desired.route)
    return [{ do: 'claim-port', preferred: instance.status?.endpoint?.port ?? instance.preferredPort }]
  if (route.refused && instance.status?.volume === undefined)
    return [{ do: 'leave-port', port: route.port, uid: children.route.metadata.uid ?? '' }]
  return applyIfChanged(observed, 'ConfigMap', children.route, desired.route)
}
