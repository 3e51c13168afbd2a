/**
 * What a pass makes of what it observed: a finding for each aspect, which step comes next on the way to what is asked,
 * and whether the database serves. Pure; what is done about it, `next-actions.ts` says.
 */

import { contestFinding } from '../../children/drift.ts'
import { keepsClientsIn } from '../../endpoint/plan/credentials.ts'
import type { DesiredEndpoint } from '../../endpoint/plan/desired.ts'
import { type EndpointPlan, planEndpoint, prerequisitesOf } from '../../endpoint/plan/index.ts'
import { areCredentialsLost } from '../../endpoint/plan/lost-credentials.ts'
import { rotationStep, unfinished } from '../../endpoint/plan/rotation.ts'
import type { DesiredMember } from '../../member/plan/desired.ts'
import { type MemberPlan, planMember } from '../../member/plan/index.ts'
import { memberStep } from '../../member/plan/step.ts'
import { lostNode } from '../../member/pod/node.ts'
import type { RestartsOf } from '../../member/pod/plan/restart-marks.ts'
import { comesIntoForce, type SizeState } from '../../member/pod/plan/size.ts'
import { isHeld, mayStop } from '../../member/pod/plan/stop.ts'
import { unknownReference } from '../../member/pod/plan/unknown-reference.ts'
import { isFoundByRole } from '../../member/pod/role.ts'
import { type Answered, presentAnswer } from '../../member/postgres/answer.ts'
import { isFull, isStillReady, writeHangs, writeHangsMessage } from '../../member/postgres/plan/health.ts'
import { notSelectedMessage } from '../../member/postgres/target.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import { planServices, type ServicesPlan } from '../../service/plan/index.ts'
import { membersOf, type Observed } from '../observed.ts'
import type { InstanceFindings as Findings } from './findings.ts'

/** What is being waited for on the way; also the reason of Progressing, and the step in a Task's messages. */
type Step =
  | 'Restoring'
  | 'Growing'
  | 'Preparing'
  | 'Stopping'
  | 'Starting'
  | 'Connecting'
  | 'PreparingRoles'
  | 'RotatingPasswords'
  | 'OpeningEndpoint'
  | 'StartingServices'

/** `reason`: the step, or why it cannot be done; `isHopeless`: waiting alone mends it not. */
export type Pending = { step: Step; reason: string; message: string; isHopeless?: true }

type Desired = DesiredMember & DesiredEndpoint

export type Assessment = Pick<MemberPlan, 'fatal' | 'answered' | 'autogrown'> & {
  /** The one that serves first. */
  members: MemberPlan[]
  endpoint: EndpointPlan
  desired: Desired
  findings: Findings
  /** What is waited for; absent where everything asked is in force. */
  pending: Pending | undefined
  serves: boolean
  services: ServicesPlan
  /** A size that could not be applied when it was requested can be applied now, which restarts Postgres. */
  awaitsSize: boolean
}

/** What every pass finds of the parts that a database is made of. */
type FoundParts = Findings & Required<Pick<Findings, 'VolumeReady' | 'CredentialsReady' | 'EndpointReady'>>

const at = (step: Step, message: string, reason: string = step): Pending => ({ step, reason, message })

const unknownIn = ({ instance, region }: Observed, { size }: Desired): Finding | undefined =>
  unknownReference({ name: instance.spec.region, region, size })

/** Whether nothing of it was made yet that could be reported part by part. */
const isUnbegun = ({ instance, children, pod }: Observed): boolean =>
  instance.status?.volume === undefined && children.claim === undefined && pod === undefined

/** The first of the steps that is not done yet. */
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
  const isUnminted = observed.credentials.state === 'absent' && !areCredentialsLost(observed)
  if (isUnminted || observed.certificate.state === 'absent') return at('Preparing', 'minting credentials')
  const { awaitsSource } = instance
  if (awaitsSource && children.claim?.status?.phase !== 'Bound')
    return at('Preparing', awaitsSource.message, awaitsSource.reason)
  if (children.claim === undefined) return at('Preparing', 'claiming the volume')
  if (children.configuration === undefined || !isUpToDate(children.service, desired.service))
    return at('Preparing', 'writing the configuration')
  if (!isUpToDate(children.statefulSet, desired.statefulSet)) return at('Preparing', 'preparing the instance')
  const lost = lostNode(observed.node)
  if (spec.suspended && pod !== undefined && !mayStop(observed))
    return at('Stopping', findings.VolumeReady.message, findings.VolumeReady.reason)
  if (observed.suspensionBlock && isHeld(observed))
    return at('Stopping', observed.suspensionBlock.message, observed.suspensionBlock.reason)
  if (spec.suspended && pod !== undefined)
    return at('Stopping', lost?.message ?? 'stopping Postgres', lost?.reason ?? 'Stopping')
  if (lost) return at('Starting', lost.message, lost.reason)
  if (spec.suspended && unfinished(observed, answered).length > 0)
    return {
      ...at('RotatingPasswords', 'no password is replaced while it is suspended', 'Suspended'),
      isHopeless: true,
    }
  const start = spec.suspended ? undefined : pendingInstance(observed, desired, findings)
  if (start) return start
  const { EndpointReady: endpoint } = findings
  if (endpoint.status !== 'True') return at('OpeningEndpoint', endpoint.message)
  return pendingSize(desired.size)
}

/** Last, so that whatever else was asked with a size that cannot come into force does. */
function pendingSize({ hindrance }: SizeState): Pending | undefined {
  // A volume that only grows where a pod mounts it has to wait for one.
  if (hindrance === undefined || hindrance.reason === 'AwaitsResume') return undefined
  const { reason, message, passes } = hindrance
  return { ...at('Growing', message, reason), ...(passes ? {} : { isHopeless: true }) }
}

function pendingInstance(observed: Observed, desired: Desired, findings: FoundParts): Pending | undefined {
  const starting = memberStep(observed, desired)
  if (starting !== undefined) return starting
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return undefined
  const { CredentialsReady: credentials } = findings
  if (credentials.status !== 'True' && !keepsClientsIn(observed, credentials))
    return at('PreparingRoles', credentials.message)
  if (answer.login === 'refused') return at('PreparingRoles', answer.loginMessage ?? 'a login as app was refused')
  const rotating = rotationStep(observed, answer)
  if (rotating !== undefined) return at('RotatingPasswords', rotating)
  // Until the volume is on record the endpoint stays closed, whatever is asked.
  if (observed.instance.status?.volume === undefined) return at('PreparingRoles', 'recording the volume')
  if (answer.closed !== undefined) return at('PreparingRoles', closedMessage)
  if (answer.login === 'unreachable') return at('Connecting', answer.loginMessage ?? notSelectedMessage)
  return observed.pod?.ready || isFull(observed) ? undefined : at('Connecting', 'waiting for the pod to be ready')
}

const closedMessage = 'the data are a copy, which is being made its own: nobody is let in before that'

const isDistrust = ({ reason }: { reason: string }): boolean => reason === 'tls' || reason === 'auth'

const distrusted = (pod: string): string =>
  `Postgres goes by an authority that is not here any more: put its Secret back, or restart Postgres (kubectl delete pod ${pod})`

const cutOffMessage =
  'a gateway cannot connect to Postgres, which the operator reaches: look for network policies, or a node, between the ' +
  'pods of the gateway and the pod of the database'

/** Where the Service leads to no pod, or to another one. */
function misroutedMessage({ children: { service, pod } }: Observed): string | undefined {
  const wanted = Object.entries(service?.spec?.selector ?? {})
  const [key] = wanted.find(([name, value]) => pod !== undefined && pod.metadata.labels?.[name] !== value) ?? []
  if (key === undefined) return undefined
  return `the selector of Service ${service?.metadata.name} does not match pod ${pod?.metadata.name}: spec.selector.${key}`
}

/** Whether clients are served now. A pass that knows nothing new of Postgres stands by what was last found. */
function readyFinding(observed: Observed, desired: Desired, findings: FoundParts, fatal: Finding | undefined): Finding {
  const { instance, children, pod } = observed
  if (fatal) return fatal
  if (instance.spec.suspended && pod === undefined) return no('Suspended', 'the database is suspended')
  const unknown = pod === undefined ? unknownIn(observed, desired) : undefined
  if (unknown !== undefined) return unknown
  if (children.service === undefined) return no('ServiceMissing', 'its Service is being made')
  const lost = lostNode(observed.node)
  if (lost) return no(lost.reason, lost.message)
  if (pod?.address === undefined || pod.terminating) {
    const reason = pod?.trouble?.reason ?? 'NotRunning'
    return no(reason, pod?.trouble?.message ?? 'Postgres does not run')
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
  // Clients that have a password are served.
  if (credentials.status !== 'True' && !keepsClientsIn(observed, credentials))
    return no(credentials.reason, credentials.message)
  if (answer?.login === 'refused') return no('LoginRefused', answer.loginMessage ?? 'a login as app was refused')
  const astray = misroutedMessage(observed)
  if (astray !== undefined) return no('NotReachable', astray)
  if (answer?.login === 'unreachable') return no('NotReachable', answer.loginMessage ?? notSelectedMessage)
  if (observed.isCutOff) return no('CutOff', cutOffMessage)
  if (!pod.ready && !isFull(observed)) return no('PodNotReady', 'the pod is not ready')
  // New rules on their way keep nobody from being served by those before them.
  const wasServing = conditionOf(instance.status, 'Ready')?.status === 'True'
  if (wasServing && (endpoint.reason === 'RulesPending' || endpoint.reason === 'AcknowledgementPending'))
    return yes('Serving', 'Postgres answers clients')
  if (endpoint.status !== 'True') return no(endpoint.reason, endpoint.message)
  return yes('Serving', 'Postgres answers clients')
}

/** Whether Postgres answers, with its roles as they should be. During a rotation services get the new passwords before Postgres does. */
function mayStartServices({ instance, credentials }: Observed, answered: Answered): boolean {
  if (answered === undefined || answered.closed !== undefined || instance.status?.volume === undefined) return false
  return answered.rolesInOrder || (credentials.state === 'readable' && credentials.previous.length > 0)
}

/** Those that only start are no outcome of an operation that has ended. */
function pendingServices({ pending }: ServicesPlan): Pending | undefined {
  if (pending === undefined) return undefined
  const { message, reason, isHopeless } = pending
  return isHopeless ? { ...at('StartingServices', message, reason), isHopeless } : at('StartingServices', message)
}

/** The members of the owner, with the endpoint that leads to the one that serves. `restartsOf`: the restarts that the owner asks for. */
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
  const contested = contestFinding(observed)
  const findings: FoundParts = {
    ...(autogrown.finding ? { VolumeGrown: autogrown.finding } : {}),
    ...(contested ? { ChildrenApplied: contested } : {}),
    KeysAvailable: yes('Present', "the installation's keys are there"),
    VolumeReady: member.volume,
    ...endpoint.findings,
  }
  const pending = pendingStep(observed, desired, findings, answered)
  const ready = readyFinding(observed, desired, findings, fatal)
  // Nothing can be made before the spec is right: Ready alone says what is wrong with it.
  const isUnknown = isUnbegun(observed) && unknownIn(observed, desired) !== undefined
  const services = planServices(observed, owner, {
    mayStart: !fatal && mayStartServices(observed, answered),
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
    awaitsSize: comesIntoForce(observed, desired.size),
  }
}
