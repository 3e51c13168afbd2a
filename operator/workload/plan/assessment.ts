/**
 * Assesses the observed state: a finding for each aspect, the next step towards the requested state, and whether the
 * database serves. Pure. `next-actions.ts` decides the actions.
 */

import { conflictFinding } from '../../children/drift.ts'
import { keepsClients } from '../../endpoint/plan/credentials.ts'
import type { DesiredEndpoint } from '../../endpoint/plan/desired.ts'
import { type EndpointPlan, planEndpoint, prerequisitesOf } from '../../endpoint/plan/index.ts'
import { areCredentialsLost } from '../../endpoint/plan/lost-credentials.ts'
import { rotationStep, unfinished } from '../../endpoint/plan/rotation.ts'
import type { DesiredMember } from '../../member/plan/desired.ts'
import { type MemberPlan, planMember } from '../../member/plan/index.ts'
import { memberStep } from '../../member/plan/step.ts'
import { lostNode } from '../../member/pod/node.ts'
import type { RestartsOf } from '../../member/pod/plan/restart-annotations.ts'
import { isSizeUnblocked, type SizeState } from '../../member/pod/plan/size.ts'
import { isSuspensionDelayed, mayStop } from '../../member/pod/plan/stop.ts'
import { unknownReference } from '../../member/pod/plan/unknown-reference.ts'
import { isFoundByRole } from '../../member/pod/role.ts'
import { type Answered, presentAnswer } from '../../member/postgres/answer.ts'
import { isFull, isStillReady, writeHangs, writeHangsMessage } from '../../member/postgres/plan/health.ts'
import { notSelectedMessage } from '../../member/postgres/target.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import { planServices, type ServicesPlan } from '../../service/plan/index.ts'
import { type PostgresState, postgresState } from '../../service/plan/postgres-state.ts'
import { membersOf, type Observed } from '../observed.ts'
import type { InstanceFindings as Findings } from './findings.ts'

/** The current step. Also the reason of Progressing, and the step in a Task's messages. */
type Step =
  | 'Restoring'
  | 'Growing'
  | 'Importing'
  | 'Preparing'
  | 'Stopping'
  | 'Starting'
  | 'Connecting'
  | 'PreparingRoles'
  | 'RotatingPasswords'
  | 'OpeningEndpoint'
  | 'StartingServices'

/** `reason`: the step, or why it cannot be done. `isPermanent`: waiting alone does not end it. */
export type Pending = { step: Step; reason: string; message: string; isPermanent?: true }

type Desired = DesiredMember & DesiredEndpoint

export type Assessment = Pick<MemberPlan, 'fatal' | 'answered' | 'autogrown'> & {
  /** The serving member first. */
  members: MemberPlan[]
  endpoint: EndpointPlan
  desired: Desired
  findings: Findings
  /** The current step; absent if the complete request is applied. */
  pending: Pending | undefined
  serves: boolean
  services: ServicesPlan
  /** A size that was blocked when it was requested can be applied now. To apply it, the operator restarts Postgres. */
  awaitsSize: boolean
}

/** The findings about a database's parts, which every pass has. */
type FoundParts = Findings & Required<Pick<Findings, 'VolumeReady' | 'CredentialsReady' | 'EndpointReady'>>

const at = (step: Step, message: string, reason: string = step): Pending => ({ step, reason, message })

const unknownIn = ({ instance, region }: Observed, { size }: Desired): Finding | undefined =>
  unknownReference({ name: instance.spec.region, region, size })

/** Whether none of the instance's parts has been created yet. */
const hasNoParts = ({ instance, children, pod }: Observed): boolean =>
  instance.status?.volume === undefined && children.claim === undefined && pod === undefined

/** The first unfinished step. */
function pendingStep(
  observed: Observed,
  desired: Desired,
  findings: FoundParts,
  answered: Answered,
): Pending | undefined {
  const { instance, children, pod } = observed
  const { spec } = instance
  const unknown = unknownIn(observed, desired)
  if (unknown !== undefined) return at('Preparing', unknown.message, unknown.reason)
  if (desired.statefulSet === undefined && observed.image === undefined)
    return at('Preparing', `this installation has no image of Postgres ${spec.pgVersion}`, 'VersionNotOffered')
  const lacksCredentials = observed.credentials.state === 'absent' && !areCredentialsLost(observed)
  if (lacksCredentials || observed.certificate.state === 'absent') return at('Preparing', 'creating credentials')
  const { awaitsSource } = instance
  if (awaitsSource && children.claim?.status?.phase !== 'Bound')
    return at('Preparing', awaitsSource.message, awaitsSource.reason)
  if (children.claim === undefined) return at('Preparing', 'creating the volume claim')
  if (children.configuration === undefined || !isUpToDate(children.service, desired.service))
    return at('Preparing', 'writing the configuration')
  if (!isUpToDate(children.statefulSet, desired.statefulSet)) return at('Preparing', 'preparing the instance')
  const lost = lostNode(observed.node)
  if (spec.suspended && pod !== undefined && !mayStop(observed))
    return at('Stopping', findings.VolumeReady.message, findings.VolumeReady.reason)
  if (observed.suspensionBlock && isSuspensionDelayed(observed))
    return at('Stopping', observed.suspensionBlock.message, observed.suspensionBlock.reason)
  if (spec.suspended && pod !== undefined)
    return at('Stopping', lost?.message ?? 'stopping Postgres', lost?.reason ?? 'Stopping')
  if (lost) return at('Starting', lost.message, lost.reason)
  if (spec.suspended && unfinished(observed, answered).length > 0)
    return {
      ...at('RotatingPasswords', 'the operator replaces no password while the database is suspended', 'Suspended'),
      isPermanent: true,
    }
  const start = spec.suspended ? undefined : pendingInstance(observed, desired, findings)
  if (start) return start
  const { EndpointReady: endpoint } = findings
  if (endpoint.status !== 'True') return at('OpeningEndpoint', endpoint.message)
  return pendingSize(desired.size)
}

/** The size is the last step, so that a blocked size does not block other changes of the same request. */
function pendingSize({ blocker }: SizeState): Pending | undefined {
  // If the volume grows only when a pod mounts it, the size waits for a pod.
  if (blocker === undefined || blocker.reason === 'AwaitsResume') return undefined
  const { reason, message, passes } = blocker
  return { ...at('Growing', message, reason), ...(passes ? {} : { isPermanent: true }) }
}

function pendingInstance(observed: Observed, desired: Desired, findings: FoundParts): Pending | undefined {
  const starting = memberStep(observed, desired)
  if (starting !== undefined) return starting
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return undefined
  const { CredentialsReady: credentials } = findings
  if (credentials.status !== 'True' && !keepsClients(observed, credentials))
    return at('PreparingRoles', credentials.message)
  if (answer.login === 'refused') return at('PreparingRoles', answer.loginMessage ?? 'a login as app was refused')
  const rotating = rotationStep(observed, answer)
  if (rotating !== undefined) return at('RotatingPasswords', rotating)
  // The endpoint stays closed until the volume is recorded, whatever its rules are.
  if (observed.instance.status?.volume === undefined) return at('PreparingRoles', 'recording the volume')
  if (answer.closed !== undefined) return at('PreparingRoles', closedMessage)
  if (answer.login === 'unreachable') return at('Connecting', answer.loginMessage ?? notSelectedMessage)
  if (!observed.pod?.ready && !isFull(observed)) return at('Connecting', 'waiting for the pod to be ready')
  const { awaitsImport } = observed.instance
  return awaitsImport === undefined ? undefined : { step: 'Importing', ...awaitsImport }
}

const closedMessage =
  'the operator is still separating this copy from its source; clients cannot connect until this is complete'

const isDistrust = ({ reason }: { reason: string }): boolean => reason === 'tls' || reason === 'auth'

const distrusted = (pod: string): string =>
  `Postgres uses a certificate authority whose Secret no longer exists: restore that Secret, or restart Postgres (kubectl delete pod ${pod})`

const cutOffMessage =
  'a gateway cannot connect to Postgres, but the operator can: check the network policies and the nodes between the ' +
  'pods of the gateway and the pod of the database'

/** The message if the Service's selector does not match the pod. */
function misroutedMessage({ children: { service, pod } }: Observed): string | undefined {
  const wanted = Object.entries(service?.spec?.selector ?? {})
  const [key] = wanted.find(([name, value]) => pod !== undefined && pod.metadata.labels?.[name] !== value) ?? []
  if (key === undefined) return undefined
  return `the selector of Service ${service?.metadata.name} does not match pod ${pod?.metadata.name}: spec.selector.${key}`
}

/** Whether Postgres serves clients now. A pass without new facts about Postgres keeps the last finding. */
function readyFinding(observed: Observed, desired: Desired, findings: FoundParts, fatal: Finding | undefined): Finding {
  const { instance, children, pod } = observed
  if (fatal) return fatal
  if (instance.spec.suspended && pod === undefined) return no('Suspended', 'the database is suspended')
  const unknown = pod === undefined ? unknownIn(observed, desired) : undefined
  if (unknown !== undefined) return unknown
  if (children.service === undefined) return no('ServiceMissing', 'the Service is being created')
  const lost = lostNode(observed.node)
  if (lost) return no(lost.reason, lost.message)
  if (pod?.address === undefined || pod.terminating) {
    const reason = pod?.problem?.reason ?? 'NotRunning'
    return no(reason, pod?.problem?.message ?? 'Postgres does not run')
  }
  const answer = presentAnswer(observed)
  const { CredentialsReady: credentials, EndpointReady: endpoint } = findings
  if (answer?.state === 'refused')
    return isDistrust(answer)
      ? no('NotTrusted', `${answer.message}; ${distrusted(pod.name)}`)
      : no('NotAnswering', answer.message)
  if (writeHangs(observed)) return no('WriteHangs', writeHangsMessage)
  if (answer === undefined && !isStillReady(observed)) return no('NotAnswering', 'Postgres has not answered yet')
  if (answer?.closed !== undefined) return no('CopyClosed', closedMessage)
  // Clients that have a password are still served.
  if (credentials.status !== 'True' && !keepsClients(observed, credentials))
    return no(credentials.reason, credentials.message)
  if (answer?.login === 'refused') return no('LoginRefused', answer.loginMessage ?? 'a login as app was refused')
  const misrouted = misroutedMessage(observed)
  if (misrouted !== undefined) return no('NotReachable', misrouted)
  if (answer?.login === 'unreachable') return no('NotReachable', answer.loginMessage ?? notSelectedMessage)
  if (observed.isCutOff) return no('CutOff', cutOffMessage)
  if (!pod.ready && !isFull(observed)) return no('PodNotReady', 'the pod is not ready')
  // Until the new rules are applied, the gateways still use the previous rules.
  const wasServing = conditionOf(instance.status, 'Ready')?.status === 'True'
  if (wasServing && (endpoint.reason === 'RulesPending' || endpoint.reason === 'AcknowledgementPending'))
    return yes('Serving', 'Postgres answers clients')
  if (instance.awaitsImport !== undefined) return no(instance.awaitsImport.reason, instance.awaitsImport.message)
  if (endpoint.status !== 'True') return no(endpoint.reason, endpoint.message)
  return yes('Serving', 'Postgres answers clients')
}

/**
 * Whether Postgres answers, and its roles are in order. During a rotation, services get the new passwords before
 * Postgres has them.
 */
function admitsServices({ instance, credentials }: Observed, answered: Answered): boolean {
  if (answered === undefined || answered.closed !== undefined || instance.status?.volume === undefined) return false
  return answered.rolesInOrder || (credentials.state === 'readable' && credentials.previous.length > 0)
}

const postgresForServices = (observed: Observed, { answered, fatal }: MemberPlan, now: number): PostgresState =>
  postgresState(
    {
      answers: admitsServices(observed, answered),
      isStillReady: isStillReady(observed),
      isHeld: fatal !== undefined || observed.instance.awaitsImport !== undefined,
      pod: observed.pod,
    },
    now,
  )

/** The outcome of an ended operation does not depend on services that are only starting. */
function pendingServices({ pending }: ServicesPlan): Pending | undefined {
  if (pending === undefined) return undefined
  const { message, reason, isPermanent } = pending
  return isPermanent ? { ...at('StartingServices', message, reason), isPermanent } : at('StartingServices', message)
}

/**
 * Assesses the members of the owner, and the endpoint that routes to the serving one. `restartsOf`: the restarts that
 * the owner requests.
 */
export function assess(observed: Observed, owner: Owner, now: number, restartsOf: RestartsOf): Assessment {
  const needs = { ...prerequisitesOf(observed), restartsOf, protectsVolume: true }
  const [serving, ...others] = membersOf(observed)
  const member = planMember(serving, owner, now, { ...needs, role: 'primary' })
  const members = [member, ...others.map(other => planMember(other, owner, now, { ...needs, role: 'replica' }))]
  const { fatal, answered, autogrown } = member
  const endpoint = planEndpoint(observed, owner, {
    ...{ answered, isFatal: fatal !== undefined, isFoundByRole: isFoundByRole(serving) },
  })
  const desired = { ...member.desired, ...endpoint.desired }
  const contested = conflictFinding(observed)
  const findings: FoundParts = {
    ...(autogrown.finding ? { VolumeGrown: autogrown.finding } : {}),
    ...(contested ? { ChildrenApplied: contested } : {}),
    KeysAvailable: yes('Present', "the installation's keys exist"),
    VolumeReady: member.volume,
    ...endpoint.findings,
  }
  const pending = pendingStep(observed, desired, findings, answered)
  const ready = readyFinding(observed, desired, findings, fatal)
  // The operator creates nothing before the spec is valid. Until then only Ready reports the spec's error.
  const isUnknown = hasNoParts(observed) && unknownIn(observed, desired) !== undefined
  const services = planServices(observed, owner, {
    postgres: postgresForServices(observed, member, now),
    authenticator: answered?.authenticator,
    references: answered?.references,
    mcpState: answered?.mcpState,
    now,
  })
  const ofServices = {
    ...(services.finding ? { ServicesReady: services.finding } : {}),
    ...(services.configured ? { ServicesConfigured: services.configured } : {}),
  }
  return {
    ...{ members, endpoint, desired, fatal, answered, autogrown, services },
    findings: {
      ...(isUnknown ? { KeysAvailable: findings.KeysAvailable, Ready: ready } : { ...findings, Ready: ready }),
      ...ofServices,
    },
    pending: fatal ? at('Preparing', fatal.message, fatal.reason) : (pending ?? pendingServices(services)),
    serves: ready.status === 'True',
    awaitsSize: isSizeUnblocked(observed, desired.size),
  }
}
