/**
 * What a pass makes of what it observed: a finding for each aspect, which step comes next on the way to what is asked,
 * and whether the database serves. Pure; what is done about it, `next-actions.ts` says.
 */

import { credentialsFinding, keepsClientsIn } from '../../endpoint/plan/credentials.ts'
import { areCredentialsLost } from '../../endpoint/plan/lost-credentials.ts'
import { rotationStep, unfinished } from '../../endpoint/plan/rotation.ts'
import { lostNode } from '../../member/pod/node.ts'
import { unknownReference } from '../../member/pod/plan/catalogue.ts'
import type { RestartsOf } from '../../member/pod/plan/restart-marks.ts'
import type { SizeState } from '../../member/pod/plan/size.ts'
import { isHeld, isStopped, mayStop } from '../../member/pod/plan/stop.ts'
import type { PodFacts } from '../../member/pod/pod.ts'
import { sizeText } from '../../member/pod/stateful-set.ts'
import {
  type Answered,
  isFull,
  isOwn,
  presentAnswer,
  stands,
  writeHangs,
  writeHangsMessage,
} from '../../member/postgres/plan/health.ts'
import { notLedTo } from '../../member/postgres/target.ts'
import { type Autogrowth, autogrowth } from '../../member/storage/plan/autogrow.ts'
import { unmadeMessage } from '../../member/storage/plan/unmade.ts'
import { volumeFinding } from '../../member/storage/plan/volume.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import type { Observed } from '../observed.ts'
import { type Desired, desiredOf } from './desired.ts'
import { contestFinding } from './drift.ts'
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

/** `reason`: the step, or why it cannot be done; `isHopeless`: waiting alone mends it not. */
export type Pending = { step: Step; reason: string; message: string; isHopeless?: true }

export type Assessment = {
  desired: Desired
  findings: Findings
  /** What is waited for; absent where everything asked is in force. */
  pending: Pending | undefined
  /** The data are lost or another's: nothing that the operator may do by itself mends this. */
  fatal: Finding | undefined
  /** What Postgres answered, in its present run, with the present passwords. */
  answered: Answered
  serves: boolean
  /** Of a volume that grows by itself. */
  autogrown: Autogrowth
}

/** What every pass finds of the parts that a database is made of. */
type FoundParts = Findings & Required<Pick<Findings, 'VolumeReady' | 'CredentialsReady' | 'EndpointReady'>>

/** Whether a restart that was asked for, or is due in the region's window, is still to come. */
function lacksRestart({ restarts: { marks: desired } }: Desired, { marks }: PodFacts): boolean {
  const lacks = (mark: keyof typeof desired) => desired[mark] !== undefined && desired[mark] !== marks[mark]
  return lacks('restart') || lacks('maintenance')
}

/** Whether a pod is of another size than it is to have, stands on another volume, or is to be restarted. */
export const isOutOfDate = (observed: Observed, desired: Desired, pod: PodFacts): boolean =>
  pod.size !== sizeText(desired.size.effective) ||
  pod.volume !== observed.children.claim?.metadata.uid ||
  lacksRestart(desired, pod)

const works = (answer: Answered): boolean =>
  answer?.rolesInOrder === true && answer.login !== 'refused' && answer.closed === undefined

/** Whether the allowlist may be in force: never before the data are known and its roles have been seen in order. */
function mayOpen(observed: Observed, answered: Answered): boolean {
  if (observed.instance.status?.volume === undefined) return false
  return works(answered) || (observed.route?.route?.rules.length ?? 0) > 0
}

function endpointFinding(observed: Observed, desired: Desired): Finding {
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

const at = (step: Step, message: string, reason: string = step): Pending => ({ step, reason, message })

const unknownIn = ({ instance, region }: Observed, { size }: Desired): Finding | undefined =>
  unknownReference({ name: instance.spec.region, region, size })

/** Whether nothing of it was made yet that could be reported part by part. */
const isUnbegun = ({ instance, children, pod }: Observed): boolean =>
  instance.status?.volume === undefined && children.claim === undefined && pod === undefined

/** The first of the steps that is not done yet. */
function pendingStep(observed: Observed, desired: Desired, findings: FoundParts): Pending | undefined {
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
  if (observed.held && isHeld(observed)) return at('Stopping', observed.held.message, observed.held.reason)
  if (spec.suspended && pod !== undefined)
    return at('Stopping', lost?.message ?? 'stopping Postgres', lost?.reason ?? 'Stopping')
  if (lost) return at('Starting', lost.message, lost.reason)
  if (spec.suspended && unfinished(observed).length > 0)
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
  const { pod } = observed
  const unmade = unmadeMessage(observed)
  if (unmade !== undefined) return at('Starting', unmade)
  if (pod === undefined) return at('Starting', 'waiting for the pod')
  if (pod.terminating || isOutOfDate(observed, desired, pod)) return at('Starting', 'restarting Postgres')
  if (pod.address === undefined) return at('Starting', pod.trouble?.message ?? 'starting the instance')
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return at('Connecting', answer?.message ?? 'waiting for Postgres to answer')
  const { CredentialsReady: credentials } = findings
  if (credentials.status !== 'True' && !keepsClientsIn(observed, credentials))
    return at('PreparingRoles', credentials.message)
  if (answer.login === 'refused') return at('PreparingRoles', answer.loginMessage ?? 'a login as app was refused')
  const rotating = rotationStep(observed)
  if (rotating !== undefined) return at('RotatingPasswords', rotating)
  // Until the volume is on record the endpoint stays closed, whatever is asked.
  if (observed.instance.status?.volume === undefined) return at('PreparingRoles', 'recording the volume')
  if (answer.closed !== undefined) return at('PreparingRoles', closedMessage)
  if (answer.login === 'unreachable') return at('Connecting', answer.loginMessage ?? notLedTo)
  return pod.ready || isFull(observed) ? undefined : at('Connecting', 'waiting for the pod to be ready')
}

const closedMessage = 'the data are a copy, which is being made its own: nobody is let in before that'

const isDistrust = ({ reason }: { reason: string }): boolean => reason === 'tls' || reason === 'auth'

const distrusted = (pod: string): string =>
  `Postgres goes by an authority that is not here any more: put its Secret back, or restart Postgres (kubectl delete pod ${pod})`

const cutOffMessage =
  'a gateway cannot connect to Postgres, which the operator reaches: look for network policies, or a node, between the ' +
  'pods of the gateway and the pod of the database'

/** Where the Service leads to no pod, or to another one. */
function astrayMessage({ children: { service, pod } }: Observed): string | undefined {
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
  if (answer === undefined && !stands(observed)) return no('NotAnswering', 'Postgres has not answered yet')
  if (answer?.closed !== undefined) return no('CopyClosed', closedMessage)
  // Clients that have a password are served.
  if (credentials.status !== 'True' && !keepsClientsIn(observed, credentials))
    return no(credentials.reason, credentials.message)
  if (answer?.login === 'refused') return no('LoginRefused', answer.loginMessage ?? 'a login as app was refused')
  const astray = astrayMessage(observed)
  if (astray !== undefined) return no('NotReachable', astray)
  if (answer?.login === 'unreachable') return no('NotReachable', answer.loginMessage ?? notLedTo)
  if (observed.isCutOff) return no('CutOff', cutOffMessage)
  if (!pod.ready && !isFull(observed)) return no('PodNotReady', 'the pod is not ready')
  // New rules on their way keep nobody from being served by those before them.
  const wasServing = conditionOf(instance.status, 'Ready')?.status === 'True'
  if (wasServing && (endpoint.reason === 'RulesPending' || endpoint.reason === 'AcknowledgementPending'))
    return yes('Serving', 'Postgres answers clients')
  if (endpoint.status !== 'True') return no(endpoint.reason, endpoint.message)
  return yes('Serving', 'Postgres answers clients')
}

/** `restartsOf`: the restarts that the owner asks for. */
export function assess(observed: Observed, owner: Owner, now: number, restartsOf: RestartsOf): Assessment {
  const answer = presentAnswer(observed)
  const answered = answer?.state === 'answered' ? answer : undefined
  const volume = volumeFinding(observed, answered)
  const fatal = volume.fatal ? volume.finding : undefined
  const open = fatal === undefined && mayOpen(observed, answered)
  const known = observed.instance.status?.volume?.systemIdentifier
  const systemIdentifier = known ?? (!fatal && isOwn(answered) ? answered.systemIdentifier : undefined)
  const desired = desiredOf(observed, owner, { open, stopped: isStopped(observed), systemIdentifier }, restartsOf)
  const contested = contestFinding(observed)
  const autogrown = autogrowth(observed, desired.size, now)
  const findings: FoundParts = {
    ...(autogrown.finding ? { VolumeGrown: autogrown.finding } : {}),
    ...(contested ? { ChildrenApplied: contested } : {}),
    KeysAvailable: yes('Present', "the installation's keys are there"),
    VolumeReady: volume.finding,
    CredentialsReady: credentialsFinding(observed, answered),
    EndpointReady: endpointFinding(observed, desired),
  }
  const pending = pendingStep(observed, desired, findings)
  const ready = readyFinding(observed, desired, findings, fatal)
  // Nothing can be made before the spec is right: Ready alone says what is wrong with it.
  const isUnknown = isUnbegun(observed) && unknownIn(observed, desired) !== undefined
  return {
    desired,
    findings: isUnknown ? { KeysAvailable: findings.KeysAvailable, Ready: ready } : { ...findings, Ready: ready },
    pending: fatal ? at('Preparing', fatal.message, fatal.reason) : pending,
    fatal,
    answered,
    serves: ready.status === 'True',
    autogrown,
  }
}
