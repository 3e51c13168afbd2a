/** Plans the actions and the status of an owner's services from their observed state. Pure. */
import { preciseTime } from '../../../values/time.ts'
import { applyIfChanged } from '../../children/drift.ts'
import type { Drifts } from '../../children/drift-history.ts'
import { conditionOf, type Finding } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Instance } from '../../objects/instance.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { FoundReferences, ReferencesAnswer } from '../../postgres/administrator.ts'
import type { ServiceAction } from '../actions.ts'
import type { ServiceType } from '../configuration/index.ts'
import { serviceBudgetDraft, serviceDraft, servicePolicyDraft, switchedAnnotation } from '../network.ts'
import type { Authenticator, ObservedServices, SeenMcpState } from '../observed.ts'
import { configurationFaults, configuredFinding, faultsOfService } from '../references.ts'
import { leftovers, remove } from './leftovers.ts'
import { type PostgresState, waitingMs } from './postgres-state.ts'
import { reportOf, type ServicesReport } from './report.ts'
import { type Rollout, rolloutsOf } from './rollout.ts'
import { isRouted, isUnserved, routeActions } from './routing.ts'

type ObservedForServices = {
  instance: Instance
  drifts: Drifts
  podSettings: PodSettings
  services: ObservedServices
}

export type ServicesPlan = ServicesReport & {
  actions: ServiceAction[]
  /** The condition ServicesConfigured. Undefined if no service names database objects, or before they are known. */
  configured: Finding | undefined
  /** Whether Postgres answers, but has not been queried yet for the objects that the configurations name. */
  awaitsReferences: boolean
  /** Whether services are being replaced. Meanwhile Postgres keeps the passwords that the old services have. */
  usesPasswords: boolean
  /** Whether a service will start after a probe has shown that Postgres is in order. */
  awaitsPostgres: boolean
  awaitsGateways: boolean
  /** The time of the next pass without an event, in ms since the epoch. */
  requeueAt: number | undefined
}

/** How soon to read a Secret again that is in no cache. */
const keysMs = 60_000

type LastSeen = {
  authenticator: Authenticator | undefined
  mcpState: SeenMcpState | undefined
  references: ReferencesAnswer | undefined
}

export function planServices(
  observed: ObservedForServices,
  owner: Owner,
  { postgres, authenticator, mcpState, references, now }: LastSeen & { postgres: PostgresState; now: number },
): ServicesPlan {
  const { services, instance, podSettings } = observed
  const ready = conditionOf(instance.status, 'ServicesReady')
  const notRunningSince = ready?.status === 'False' ? Date.parse(ready.lastTransitionTime) : now
  const rollouts = rolloutsOf({ services, podSettings, owner, notRunningSince, postgres, now })
  const { suspended } = instance.spec
  const removal = leftovers(services, owner, rollouts, { suspended, now })
  const routed = isRouted(services, owner, rollouts, suspended)
  const found = services.references?.digest === references?.digest ? references?.found : undefined
  const faults = faultsOf(services, instance, found)
  const report = reportOf(services, rollouts, {
    ...{ suspended, routed, postgres, authenticator, mcpState: services.mcpState, before: ready },
    faultsOf: type => faultsOfService(faults, type),
    isClearing: removal.isClearing,
  })
  /**
   * A service cannot log in before its role exists. While Postgres starts, a service starts anyway and waits for both.
   */
  const mayRun = (type: ServiceType) =>
    postgres.is === 'starting' ||
    (postgres.is === 'answers' &&
      (type !== 'rest' || hasLogin(services, authenticator)) &&
      (type !== 'mcp' || hasState(services, mcpState)))
  const waiting = rollouts.flatMap(rollout => waitingSince(services, rollout))
  const isDropped = (rollout: Rollout) =>
    (postgres.is === 'away' && waitingSince(services, rollout).some(since => now >= since + waitingMs)) ||
    (rollout.desired.type === 'rest' && authenticator?.role === 'foreign' && isUnserved(services, 'rest'))
  return {
    ...report,
    configured: configuredOf(services, instance, faults, found !== undefined),
    awaitsReferences:
      !suspended && services.references !== undefined && services.references.digest !== references?.digest,
    actions: [
      ...minting(services),
      ...rollouts.flatMap(rollout => [
        ...networking(observed, owner, rollout, now),
        ...(suspended || rollout.awaitsSlot
          ? []
          : isDropped(rollout)
            ? remove('Deployment', rollout.desired.observed?.deployment)
            : workload(observed, rollout, mayRun(rollout.desired.type))),
      ]),
      ...routeActions(observed, owner, rollouts, suspended),
      ...removal.actions,
    ],
    usesPasswords: !suspended && rollouts.some(rollout => logsInAsUsersRole(rollout) && isUnderWay(rollout)),
    awaitsPostgres: !suspended && rollouts.some(({ progress }) => progress === undefined),
    awaitsGateways: services.requested.length > 0 && !routed,
    requeueAt: earliest(
      ...rollouts.map(({ progress }) => (progress?.state === 'starting' ? progress.until : undefined)),
      ...waiting.map(since => (since + waitingMs > now ? since + waitingMs : undefined)),
      removal.requeueAt,
      services.upgradeWaitsUntil,
      services.readsKeys ? now + keysMs : undefined,
    ),
  }
}

function faultsOf(
  { requested, faults, pgvectorVersions, installation }: ObservedServices,
  { spec: { pgVersion } }: Instance,
  found: FoundReferences | undefined,
) {
  const isOwnAddress = installation.settings.baseUrls.openai === undefined
  const configs = requested.map(({ config }) => config)
  return configurationFaults(configs, found, { faults, pgVersion, pgvectorVersions, isOwnAddress })
}

/** Keeps the previous findings until Postgres is queried again. */
function configuredOf(
  { references }: ObservedServices,
  { status }: Instance,
  faults: ReturnType<typeof faultsOf>,
  isRequested: boolean,
): Finding | undefined {
  if (references === undefined) return undefined
  const finding = configuredFinding(faults, isRequested)
  if (finding !== undefined) return finding
  const before = conditionOf(status, 'ServicesConfigured')
  return before && { status: before.status, reason: before.reason, message: before.message }
}

/** Whether the desired workload does not serve yet and has not failed. */
const isUnderWay = ({ progress, desired, selected }: Rollout): boolean =>
  progress?.state !== 'failed' && (progress?.state !== 'ready' || selected !== desired.digest)

/** Whether the service logs in as a user's role. `rest` has its own role, whose password is never rotated. */
const logsInAsUsersRole = ({ desired }: Rollout): boolean => desired.type !== 'rest'

const hasLogin = ({ login }: ObservedServices, authenticator: Authenticator | undefined): boolean =>
  login !== undefined &&
  authenticator?.passwordVersion === login.passwordVersion &&
  authenticator.inOrder &&
  authenticator.role === 'ours'

const hasState = ({ mcpState: wanted }: ObservedServices, seen: SeenMcpState | undefined): boolean =>
  wanted?.taken !== undefined ||
  (wanted?.login !== undefined &&
    seen?.passwordVersion === wanted.login.passwordVersion &&
    seen.kind === 'ours' &&
    seen.inOrder)

/** The time since which a workload that never served waits for Postgres. Undefined if it does not wait. */
function waitingSince(services: ObservedServices, { progress, desired: { type, observed } }: Rollout): number[] {
  if (progress?.state !== 'awaits-postgres' || observed === undefined || !isUnserved(services, type)) return []
  return [Date.parse(observed.deployment.metadata.creationTimestamp ?? '') || 0]
}

const minting = ({ requested }: ObservedServices): ServiceAction[] =>
  requested.flatMap(({ unminted }) => unminted.map(secret => ({ do: 'mint-service-secret', ...secret })))

/** The Service, NetworkPolicy and disruption budget of a service. */
function networking(observed: ObservedForServices, owner: Owner, rollout: Rollout, now: number): ServiceAction[] {
  const { services, podSettings } = observed
  const { request, pod, serving, selected, replicas } = rollout
  const { config } = request
  const type = config.serviceType
  const { settings } = services.installation
  const { addresses, networkPolicies, disruptionBudgets } = services.objects
  const address = { owner, type, config, containers: pod.containers }
  const before = addresses[type]?.metadata.annotations?.[switchedAnnotation]
  const switchedAt = serving === selected && before !== undefined ? before : preciseTime(now)
  const budget = disruptionBudgets[type]
  return [
    ...applyIfChanged(observed, 'Service', addresses[type], stamped(serviceDraft(address, serving, switchedAt))),
    ...applyIfChanged(
      observed,
      'NetworkPolicy',
      networkPolicies[type],
      stamped(servicePolicyDraft(address, podSettings, settings)),
    ),
    ...(replicas > 1
      ? applyIfChanged(observed, 'PodDisruptionBudget', budget, stamped(serviceBudgetDraft(owner, type)))
      : remove('PodDisruptionBudget', budget)),
  ]
}

/**
 * Creates the Secret first, even before Postgres has a pod. Then creates the Deployment whose pods mount it. Keeps an
 * existing Deployment in its desired state, whether Postgres answers or not.
 */
function workload(observed: ObservedForServices, { desired }: Rollout, mayStart: boolean): ServiceAction[] {
  const { type, digest, draft, observed: found } = desired
  const { configurations, networkPolicies } = observed.services.objects
  const configuration = configurations.find(known => known.type === type && known.digest === digest)
  if (configuration === undefined) return [{ do: 'create-service-configuration', type, digest }]
  if (configuration.secret.metadata.deletionTimestamp !== undefined || networkPolicies[type] === undefined) return []
  if (found === undefined && !mayStart) return []
  return applyIfChanged(observed, 'Deployment', found?.deployment, stamped(draft))
}
