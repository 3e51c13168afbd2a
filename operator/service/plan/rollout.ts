/**
 * Decides which workload of each service serves, and which one is desired. A change creates a second workload beside
 * the serving one. When the new workloads of all changed services are ready or have failed, all Services select the
 * ready ones together. Pure.
 */
import type { Service } from '../../../cluster/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { deploymentDraft, workloadDigest } from '../deployment.ts'
import type { NamedWorkload } from '../names.ts'
import { switchedAnnotation } from '../network.ts'
import { replicasOf } from '../nodes.ts'
import type { ObservedServices, ObservedWorkload, RenderedPod, RequestedService } from '../observed.ts'
import { readyPods, selectedBy } from '../workloads.ts'
import { isAwaited, type PostgresState } from './postgres-state.ts'
import { type Progress, progressOf } from './progress.ts'

export type Rollout = {
  request: RequestedService
  pod: RenderedPod
  desired: NamedWorkload & { draft: ReturnType<typeof deploymentDraft>; observed: ObservedWorkload | undefined }
  /** An upgrade to another image waits for its slot. Until then the serving workload counts as the desired one. */
  awaitsSlot: boolean
  /** The progress of the desired workload. Undefined if it does not exist yet. */
  progress: Progress | undefined
  /** The desired number of pods. */
  replicas: 1 | 2
  /** The digest that the Service currently selects. */
  selected: string | undefined
  /** The digest that the Service should select. */
  serving: string
}

type Facts = {
  services: ObservedServices
  podSettings: PodSettings
  owner: Owner
  notRunningSince: number
  postgres: PostgresState
  now: number
}

/** When the selector last changed, in ms since the epoch. Undefined if unknown. */
export const switchedAt = (service: Service | undefined): number | undefined => {
  const at = Date.parse(service?.metadata.annotations?.[switchedAnnotation] ?? '')
  return Number.isNaN(at) ? undefined : at
}

/** The services that can run, each with its rollout. */
export function rolloutsOf(facts: Facts): Rollout[] {
  const found = facts.services.requested.flatMap(request => rolloutOf(facts, request))
  const isDecided = found.every(({ progress }) => progress?.state === 'ready' || progress?.state === 'failed')
  return found.map(rollout => ({ ...rollout, serving: servingOf(facts, rollout, isDecided) }))
}

function rolloutOf(
  { services, podSettings, owner, notRunningSince, postgres, now }: Facts,
  request: RequestedService,
): Omit<Rollout, 'serving'>[] {
  const { rendering, config } = request
  const { image, settings, nodes } = services.installation
  if (rendering.state !== 'rendered' || image === undefined) return []
  const type = config.serviceType
  const { pod } = rendering
  const { hostIds, rest } = config
  const anonymousRole = rest?.dbAnonRole
  const keepsOwnState = type === 'mcp' && services.mcpState?.taken !== undefined
  const pods = { owner, type, image, pod, pods: podSettings, anonymousRole, keepsOwnState, hostIds }
  const selected = selectedBy(services.objects.addresses[type])
  const named = (wanted: string | undefined) =>
    services.objects.workloads.find(found => found.type === type && found.digest === wanted)
  const serving = named(selected)
  const next = workloadDigest(pods)
  const awaitsSlot =
    services.upgradeWaitsUntil !== undefined &&
    named(next) === undefined &&
    serving !== undefined &&
    readyPods(serving.deployment) > 0
  const digest = awaitsSlot ? serving.digest : next
  const observed = named(digest)
  const present = (observed ?? serving)?.deployment.spec?.replicas
  const replicas = keepsOwnState ? 1 : replicasOf(settings.replicas[type], nodes, present)
  const workload = { ...pods, replicas }
  const replaces = serving === observed ? undefined : serving?.deployment
  const facts = {
    ...{ pods: services.pods, notRunningSince, replaces, isServing: selected === digest },
    awaitsPostgres: isAwaited(postgres),
  }
  const progress = observed && progressOf({ deployment: observed.deployment, ...facts }, observed, now)
  return [
    {
      ...{ request, pod, awaitsSlot, progress, selected, replicas },
      desired: { type, digest, draft: deploymentDraft(workload, digest), observed },
    },
  ]
}

/** `isDecided`: every desired workload is ready or has failed. */
function servingOf({ services }: Facts, rollout: Omit<Rollout, 'serving'>, isDecided: boolean): string {
  const { desired, progress, selected } = rollout
  const { type, digest } = desired
  const isReady = progress?.state === 'ready'
  const ready = (wanted: string | undefined) =>
    services.objects.workloads.some(
      found => found.type === type && found.digest === wanted && readyPods(found.deployment) > 0,
    )
  if (selected === digest) return digest
  if (isReady && (isDecided || !ready(selected))) return digest
  const exists = services.objects.workloads.some(found => found.type === type && found.digest === selected)
  if (selected !== undefined && exists) return selected
  // The Service, or the workload that it selects, does not exist. Another workload that serves is better than one that
  // does not serve yet.
  const other = services.objects.workloads.find(found => found.type === type && readyPods(found.deployment) > 0)
  return other?.digest ?? digest
}
