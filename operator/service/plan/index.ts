/** From what was observed of an owner's services to what is done about them, and what its status reports: a pure function. */
import { preciseTime } from '../../../values/time.ts'
import { applyIfChanged } from '../../children/drift.ts'
import type { Drifts } from '../../children/drift-history.ts'
import { conditionOf, type Finding } from '../../objects/conditions.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Instance } from '../../objects/instance.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { ReferencesAnswer } from '../../postgres/administrator.ts'
import type { ServiceAction } from '../actions.ts'
import type { ServiceType } from '../configuration/index.ts'
import { serviceBudgetDraft, serviceDraft, servicePolicyDraft, switchedAnnotation } from '../network.ts'
import type { Authenticator, ObservedServices, SeenMcpState } from '../observed.ts'
import { configuredFinding } from '../references.ts'
import { leftovers, remove } from './leftovers.ts'
import { reportOf, type ServicesReport } from './report.ts'
import { type Rollout, rolloutsOf } from './rollout.ts'
import { isRouted, routeActions } from './routing.ts'

type ObservedForServices = {
  instance: Instance
  drifts: Drifts
  podSettings: PodSettings
  services: ObservedServices
}

export type ServicesPlan = ServicesReport & {
  actions: ServiceAction[]
  /** The condition ServicesConfigured; undefined where no service names anything, or nothing is known. */
  configured: Finding | undefined
  /** What the configurations name is not known yet of a Postgres that answers. */
  awaitsReferences: boolean
  /** Services are being replaced: until that is done, Postgres keeps the passwords that the old ones have. */
  holdsPasswords: boolean
  /** A service starts as soon as Postgres was seen to be in order. */
  awaitsPostgres: boolean
  awaitsGateways: boolean
  /** When the next pass is due even if nothing changes, in ms since the epoch. */
  wakeAt: number | undefined
}

/** How soon a Secret is read again that no cache follows. */
const keysMs = 60_000

type LastSeen = {
  authenticator: Authenticator | undefined
  mcpState: SeenMcpState | undefined
  references: ReferencesAnswer | undefined
}

/** `mayStart`: Postgres answers and its roles are in order. The rest is as it was last seen. */
export function planServices(
  observed: ObservedForServices,
  owner: Owner,
  { mayStart, authenticator, mcpState, references, now }: LastSeen & { mayStart: boolean; now: number },
): ServicesPlan {
  const { services, instance, podSettings } = observed
  const ready = conditionOf(instance.status, 'ServicesReady')
  const notRunningSince = ready?.status === 'False' ? Date.parse(ready.lastTransitionTime) : now
  const rollouts = rolloutsOf({ services, podSettings, owner, notRunningSince, now })
  const { suspended } = instance.spec
  const left = leftovers(services, owner, rollouts, { suspended, now })
  const routed = isRouted(services, owner, rollouts, suspended)
  const report = reportOf(services, rollouts, {
    ...{ suspended, routed, authenticator, mcpState: services.mcpState, before: ready },
    isClearing: left.isClearing,
  })
  /** A service cannot log in before its role exists. */
  const mayRun = (type: ServiceType) =>
    mayStart &&
    (type !== 'rest' || hasLogin(services, authenticator)) &&
    (type !== 'mcp' || hasState(services, mcpState))
  return {
    ...report,
    configured: configuredOf(services, instance, references),
    awaitsReferences:
      !suspended && services.references !== undefined && services.references.digest !== references?.digest,
    actions: [
      ...minting(services),
      ...rollouts.flatMap(rollout => [
        ...networking(observed, owner, rollout, now),
        ...(suspended ? [] : workload(observed, rollout, mayRun(rollout.desired.type))),
      ]),
      ...routeActions(observed, owner, rollouts, suspended),
      ...left.actions,
    ],
    holdsPasswords: !suspended && rollouts.some(rollout => logsInAsUsersRole(rollout) && isUnderWay(rollout)),
    awaitsPostgres: !suspended && rollouts.some(({ progress }) => progress === undefined),
    awaitsGateways: services.requested.length > 0 && !routed,
    wakeAt: earliest(
      ...rollouts.map(({ progress }) => (progress?.state === 'starting' ? progress.until : undefined)),
      left.wakeAt,
      services.readsKeys ? now + keysMs : undefined,
    ),
  }
}

/** What was found stays until Postgres is asked again. */
function configuredOf(
  { requested, references, faults, pgvectorVersions, installation }: ObservedServices,
  { spec, status }: Instance,
  answer: ReferencesAnswer | undefined,
): Finding | undefined {
  if (references === undefined) return undefined
  const found = answer?.digest === references.digest ? answer.found : undefined
  const finding = configuredFinding(
    requested.map(({ config }) => config),
    found,
    {
      ...{ faults, pgVersion: spec.pgVersion, pgvectorVersions },
      isOwnAddress: installation.settings.baseUrls.openai === undefined,
    },
  )
  if (finding !== undefined) return finding
  const before = conditionOf(status, 'ServicesConfigured')
  return before && { status: before.status, reason: before.reason, message: before.message }
}

/** Whether the desired workload does not serve yet, and has not failed. */
const isUnderWay = ({ progress, desired, selected }: Rollout): boolean =>
  progress?.state !== 'failed' && (progress?.state !== 'ready' || selected !== desired.digest)

/** `rest` has a role of its own, whose password is never rotated. */
const logsInAsUsersRole = ({ desired }: Rollout): boolean => desired.type !== 'rest'

const hasLogin = ({ login }: ObservedServices, authenticator: Authenticator | undefined): boolean =>
  login !== undefined && authenticator?.mark === login.mark && authenticator.inOrder && authenticator.role === 'ours'

const hasState = ({ mcpState: wanted }: ObservedServices, seen: SeenMcpState | undefined): boolean =>
  wanted?.taken !== undefined ||
  (wanted?.login !== undefined && seen?.mark === wanted.login.mark && seen.kind === 'ours' && seen.inOrder)

const minting = ({ requested }: ObservedServices): ServiceAction[] =>
  requested.flatMap(({ unminted }) => unminted.map(secret => ({ do: 'mint-service-secret', ...secret })))

/** Its Service, NetworkPolicy and disruption budget. */
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

/** Its Secret first, then the Deployment whose pods mount that. One that exists is kept as it should be whether Postgres answers or not. */
function workload(observed: ObservedForServices, { desired }: Rollout, mayStart: boolean): ServiceAction[] {
  const { type, digest, draft, observed: found } = desired
  if (found === undefined && !mayStart) return []
  const { configurations, networkPolicies } = observed.services.objects
  const configuration = configurations.find(known => known.type === type && known.digest === digest)
  if (configuration === undefined) return [{ do: 'create-service-configuration', type, digest }]
  if (configuration.secret.metadata.deletionTimestamp !== undefined || networkPolicies[type] === undefined) return []
  return applyIfChanged(observed, 'Deployment', found?.deployment, stamped(draft))
}
