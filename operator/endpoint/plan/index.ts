/** From what was observed of an endpoint to what is done about it, and what its conditions report: a pure function. */
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

/** The member that serves, or is to serve. */
type Serving = {
  answered: Answered
  /** Its data are lost or another's. */
  isFatal: boolean
  /** Its pods say which role they have. */
  isFoundByRole: boolean
}

export type EndpointPlan = {
  desired: DesiredEndpoint
  findings: { CredentialsReady: Finding; EndpointReady: Finding }
  actions: (EndpointAction | ChildAction)[]
}

/** Before any member has answered. */
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

/** What the pods of members wait for: the Secrets that they mount, and the network policy. */
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

/** Whether the allowlist may be in force: never before the data are known and its roles have been seen in order. */
function mayOpen(observed: ObservedEndpoint, answered: Answered): boolean {
  if (observed.instance.status?.volume === undefined) return false
  return works(answered) || (observed.route?.route?.rules.length ?? 0) > 0
}

function endpointFinding(observed: ObservedEndpoint, desired: DesiredEndpoint): Finding {
  const { route, instance, children } = observed
  if (route === undefined)
    return observed.region
      ? no('PortPending', 'a port is being claimed')
      : no('RegionNotFound', `there is no region ${instance.spec.region}`)
  if (route.refused) return no('PortInUse', `port ${route.port} is in use by something else on the gateway's machine`)
  if (!isUpToDate(children.route, desired.route)) return no('RulesPending', 'the rules are being written')
  const held = observed.isAtRest && conditionOf(instance.status, 'EndpointReady')?.status === 'True'
  if (route.acknowledged || held)
    return yes('InForce', desired.rules.length > 0 ? 'the rules are in force' : 'no rules: the endpoint is closed')
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

/** Puts the labels of a Secret back. */
function labelled(secret: Secret | undefined, owner: Owner, component: Component): EndpointAction[] {
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined) return []
  const labels = { ...secret.metadata.labels, ...childLabels(owner, component) }
  if (isUpToDate(secret.metadata.labels, labels)) return []
  return [{ do: 'relabel', secret: { ...secret, metadata: { ...secret.metadata, labels } } }]
}

/** Nothing waits for it: it says what others may do, and the database serves without. */
function disruptionBudget(observed: ObservedEndpoint, desired: DesiredEndpoint['disruptionBudget']): ChildAction[] {
  const { disruptionBudget: actual } = observed.children
  if (desired !== undefined) return applyIfChanged(observed, 'PodDisruptionBudget', actual, desired)
  if (actual === undefined || actual.metadata.deletionTimestamp !== undefined) return []
  const { name, namespace = '', uid = '' } = actual.metadata
  return [{ do: 'delete', kind: 'PodDisruptionBudget', name, namespace, uid }]
}

/** The port is claimed closed, at once; its rules come into force when the database can answer for itself. */
function address(observed: ObservedEndpoint, desired: DesiredEndpoint): EndpointPlan['actions'] {
  const { instance, children, route, region } = observed
  if (!region) return []
  if (!route || !children.route || !desired.route)
    return [{ do: 'claim-port', preferred: instance.status?.endpoint?.port }]
  if (route.refused && instance.status?.volume === undefined)
    return [{ do: 'leave-port', port: route.port, uid: children.route.metadata.uid ?? '' }]
  return applyIfChanged(observed, 'ConfigMap', children.route, desired.route)
}
