/**
 * Which workload of each service serves, and which is to. A change makes a second workload beside the one that serves. Once those of all
 * services that changed are ready, or have failed, the Services select the ready ones together. Pure.
 */
import type { Service } from '../../../cluster/index.ts'
import { labels } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { deploymentDraft, workloadDigest } from '../deployment.ts'
import type { NamedWorkload } from '../names.ts'
import { switchedAnnotation } from '../network.ts'
import { replicasOf } from '../nodes.ts'
import type { ObservedServices, ObservedWorkload, RenderedPod, RequestedService } from '../observed.ts'
import { type Progress, progressOf, readyPods } from './progress.ts'

export type Rollout = {
  request: RequestedService
  pod: RenderedPod
  desired: NamedWorkload & { draft: ReturnType<typeof deploymentDraft>; observed: ObservedWorkload | undefined }
  /** Of the desired workload; undefined where it does not exist yet. */
  progress: Progress | undefined
  /** How many pods it is to have. */
  replicas: 1 | 2
  /** The digest that the Service selects now. */
  selected: string | undefined
  /** The digest that the Service is to select. */
  serving: string
}

type Facts = {
  services: ObservedServices
  podSettings: PodSettings
  owner: Owner
  notRunningSince: number
  now: number
}

const selectedBy = (service: Service | undefined): string | undefined => service?.spec?.selector?.[labels.configuration]

/** When the selector last changed, in ms since the epoch; undefined where that is not known. */
export const switchedAt = (service: Service | undefined): number | undefined => {
  const at = Date.parse(service?.metadata.annotations?.[switchedAnnotation] ?? '')
  return Number.isNaN(at) ? undefined : at
}

/** The services that can run, each with its rollout. */
export function rolloutsOf(facts: Facts): Rollout[] {
  const found = facts.services.requested.flatMap(request => rolloutOf(facts, request))
  const isSettled = found.every(({ progress }) => progress?.state === 'ready' || progress?.state === 'failed')
  return found.map(rollout => ({ ...rollout, serving: servingOf(facts, rollout, isSettled) }))
}

function rolloutOf(
  { services, podSettings, owner, notRunningSince, now }: Facts,
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
  const digest = workloadDigest(pods)
  const selected = selectedBy(services.objects.addresses[type])
  const named = (wanted: string | undefined) =>
    services.objects.workloads.find(found => found.type === type && found.digest === wanted)
  const [observed, serving] = [named(digest), named(selected)]
  const present = (observed ?? serving)?.deployment.spec?.replicas
  const replicas = keepsOwnState ? 1 : replicasOf(settings.replicas[type], nodes, present)
  const workload = { ...pods, replicas }
  const replaces = serving === observed ? undefined : serving?.deployment
  const facts = { pods: services.pods, notRunningSince, replaces, isServing: selected === digest }
  const progress = observed && progressOf({ deployment: observed.deployment, ...facts }, observed, now)
  return [
    {
      ...{ request, pod, progress, selected, replicas },
      desired: { type, digest, draft: deploymentDraft(workload, digest), observed },
    },
  ]
}

/** `isSettled`: every desired workload is ready or has failed. */
function servingOf({ services }: Facts, rollout: Omit<Rollout, 'serving'>, isSettled: boolean): string {
  const { desired, progress, selected } = rollout
  const { type, digest } = desired
  const isReady = progress?.state === 'ready'
  const ready = (wanted: string | undefined) =>
    services.objects.workloads.some(
      found => found.type === type && found.digest === wanted && readyPods(found.deployment) > 0,
    )
  if (selected === digest) return digest
  if (isReady && (isSettled || !ready(selected))) return digest
  const exists = services.objects.workloads.some(found => found.type === type && found.digest === selected)
  if (selected !== undefined && exists) return selected
  // The Service is gone, or what it selects: another workload that serves is better than one that does not yet.
  const other = services.objects.workloads.find(found => found.type === type && readyPods(found.deployment) > 0)
  return other?.digest ?? digest
}
