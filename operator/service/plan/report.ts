/** The status of an owner's services. Pure. */
import type { Condition, ServiceStatus } from '../../../crds/index.ts'
import { shortened } from '../../../values/text.ts'
import { type Finding, no, yes } from '../../objects/conditions.ts'
import { mcpStateDatabase, mcpStateRole } from '../../postgres/configuration.ts'
import type { Authenticator, ObservedServices, RequestedService } from '../observed.ts'
import { portOf } from '../route.ts'
import { isAwaited, type PostgresState } from './postgres-state.ts'
import type { Rollout } from './rollout.ts'

/** `isPermanent`: waiting alone does not end it. */
type PendingServices = { reason: string; message: string; isPermanent?: true }

export type ServicesReport = {
  /** The condition ServicesReady. Undefined if no service is requested. */
  finding: Finding | undefined
  status: ServiceStatus[] | undefined
  pending: PendingServices | undefined
  /** Whether a service has failed, so that the database is degraded. */
  hasFailed: boolean
}

type Found = Pick<ServiceStatus, 'serviceId' | 'state'> & {
  type: ServiceStatus['serviceType']
  reason: string
  why: string
  fault: string | undefined
}

type Circumstances = {
  suspended: boolean
  routed: boolean
  isClearing: boolean
  postgres: PostgresState
  authenticator: Authenticator | undefined
  mcpState: ObservedServices['mcpState']
  /** Faults in a service's configuration, for example a schema that does not exist. */
  faultsOf: (type: ServiceStatus['serviceType']) => string | undefined
  /** The previous condition ServicesReady. */
  before: Condition | undefined
}

export function reportOf(
  services: ObservedServices,
  rollouts: readonly Rollout[],
  circumstances: Circumstances,
): ServicesReport {
  const { requested, installation } = services
  const none = { finding: undefined, status: undefined, hasFailed: false }
  const clearing = circumstances.isClearing ? { reason: rolling, message: 'stopping services' } : undefined
  if (requested.length === 0) return { ...none, pending: clearing }
  if (installation.image === undefined)
    return { ...none, finding: no('NotAvailable', 'this installation has no image for services'), pending: clearing }
  const found = requested.map(request => stateOf(request, rollouts, circumstances))
  const status = found.map(one => statusOf(services, one))
  if (circumstances.suspended)
    return { ...none, status, finding: no('Suspended', 'the database is suspended'), pending: clearing }
  const failed = found.filter(({ state }) => state === 'failed')
  const finding = findingOf(found, requested, circumstances)
  return {
    ...{ status, finding, hasFailed: failed.length > 0 },
    pending: finding.status === 'True' ? clearing : pendingOf(finding, found),
  }
}

const rolling = 'RollingOut'

function stateOf(
  { config, rendering }: RequestedService,
  rollouts: readonly Rollout[],
  { suspended, authenticator, faultsOf }: Circumstances,
): Found {
  const { serviceType: type, serviceId } = config
  const fault = faultsOf(type)
  const found = (state: Found['state'], why: string, reason: string = rolling): Found => ({
    ...{ type, serviceId, state, reason, why, fault },
  })
  if (rendering.state === 'refused') return found('failed', rendering.message, rendering.reason)
  if (rendering.state === 'awaited') return found('pending', rendering.message)
  if (type === 'rest' && authenticator?.role === 'foreign') return found('failed', foreignRole, 'AuthenticatorTaken')
  const rollout = rollouts.find(({ desired }) => desired.type === type)
  if (suspended || rollout?.progress === undefined || rollout.progress.state === 'awaits-postgres')
    return found('pending', 'waiting for Postgres')
  const { progress, selected, desired } = rollout
  // A fault can prevent a server from becoming ready.
  if (progress.state === 'failed') return found('failed', fault ?? progress.message, 'ServiceFailed')
  if (progress.state === 'starting') return found('pending', fault ?? 'starting')
  return selected === desired.digest
    ? found('running', 'running')
    : found('pending', 'ready, waiting for the other services')
}

const longestMessage = 1000

function statusOf({ address }: ObservedServices, { type, serviceId, state, why, fault }: Found): ServiceStatus {
  const uri = address === undefined ? {} : { uri: `${address.base}/${type}` }
  const message = state === 'failed' ? why : fault
  return {
    ...{ serviceType: type, serviceId, state, port: portOf(type), ...uri },
    ...(message === undefined ? {} : { message: shortened(message, longestMessage) }),
  }
}

const listed = (found: readonly Found[]): string => found.map(({ type, why }) => `${type}: ${why}`).join('; ')

function findingOf(
  found: readonly Found[],
  requested: readonly RequestedService[],
  { routed, postgres, authenticator, mcpState, before }: Circumstances,
): Finding {
  const failed = found.filter(({ state }) => state === 'failed')
  if (failed.length > 0) {
    const [first] = failed
    const isAlike = failed.every(({ reason }) => reason === first?.reason)
    return no(isAlike ? (first?.reason ?? 'ServiceFailed') : 'ServiceFailed', listed(failed))
  }
  const pending = found.filter(({ state }) => state === 'pending')
  // The time of this condition's last transition is when Postgres answered. From then on, services have a deadline.
  if (pending.length > 0 && isAwaited(postgres)) return { ...no(rolling, listed(pending)), status: 'Unknown' }
  if (pending.length > 0) return no(rolling, listed(pending))
  if (!routed) return no(rolling, 'waiting for every gateway to apply the route of the services')
  return (
    anonymousFinding(requested, authenticator, before) ??
    stateFinding(mcpState, before) ??
    yes('Running', 'the services run')
  )
}

/**
 * The pods of `mcp` serve in any case. The operator keeps the finding about the taken name until Postgres is probed
 * again.
 */
function stateFinding(mcpState: ObservedServices['mcpState'], before: Condition | undefined): Finding | undefined {
  const { taken } = mcpState ?? {}
  if (taken === undefined) return undefined
  if (taken === 'unknown' && before?.reason === stateTaken) return yes(stateTaken, before.message)
  const name = taken === 'role' ? `role named ${mcpStateRole}` : `database named ${mcpStateDatabase}`
  return yes(stateTaken, `mcp: a user created a ${name}, so mcp loses its conversations with its pod: rename it`)
}

const stateTaken = 'McpStateTaken'

const foreignRole = 'a user created a role named authenticator, which rest needs as its login: rename it'

/** Requests with a token are served in any case. Keeps the findings until Postgres is probed again. */
function anonymousFinding(
  requested: readonly RequestedService[],
  authenticator: Authenticator | undefined,
  before: Condition | undefined,
): Finding | undefined {
  const role = requested.find(({ config }) => config.rest !== undefined)?.config.rest?.dbAnonRole
  if (role === undefined) return undefined
  const roles = authenticator?.anonymousRoles ?? {}
  // A user can give a role the name of an inherited property of objects.
  const seen = Object.hasOwn(roles, role) ? roles[role] : undefined
  if (seen === undefined)
    return before?.status === 'True' && before.reason in anonymousReasons
      ? yes(before.reason, before.message)
      : undefined
  if (seen.kind === 'missing')
    return yes('AnonymousRoleMissing', `rest: there is no role ${role} for requests without a token: create it`)
  if (seen.kind === 'refused')
    return yes('AnonymousRoleRefused', `rest: requests without a token are refused, since ${seen.reason}`)
  return undefined
}

const anonymousReasons = { AnonymousRoleMissing: true, AnonymousRoleRefused: true }

/** An operation that waits for services continues while one of them may still start. */
function pendingOf({ reason, message }: Finding, found: readonly Found[]): PendingServices {
  const pending = found.filter(({ state }) => state === 'pending')
  if (reason === rolling) return { reason, message }
  if (pending.length > 0) return { reason: rolling, message: listed(pending) }
  return { reason, message, isPermanent: true }
}
