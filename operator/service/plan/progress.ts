/** Whether the workload of a service is ready, still starting, or has failed. Pure. */
import type { Deployment } from '../../../cluster/index.ts'
import { progressSeconds } from '../deployment.ts'
import type { NamedWorkload } from '../names.ts'
import type { ServicePod } from '../observed.ts'

const progressMs = progressSeconds * 1000
/** The same where another image replaces pods that serve: an upgrade starts the pods of all databases, which takes more than a minute. */
const upgradeMs = 10 * 60_000
/** So many restarts by a crash are a loop. */
const fewRestarts = 3

/** `until`: when it has failed if nothing changes, in ms since the epoch. */
export type Progress = { state: 'ready' } | { state: 'starting'; until: number } | { state: 'failed'; message: string }

/**
 * How many pods of a Deployment serve; none before its controller has seen it. What it sees later is another number of pods: the template
 * never changes.
 */
export function readyPods({ metadata, status }: Deployment): number {
  if (metadata.deletionTimestamp !== undefined) return 0
  if ((status?.observedGeneration ?? 0) < 1) return 0
  return status?.readyReplicas ?? 0
}

type Facts = {
  deployment: Deployment
  pods: readonly ServicePod[]
  /** When services were last found not to run, in ms since the epoch. */
  notRunningSince: number
  /** The workload that serves until this one does, if it is another. */
  replaces?: Deployment | undefined
  /** Its service selects it already: it goes on with the pods that are ready while another starts or moves to another node. */
  isServing: boolean
}

export function progressOf(
  { deployment, pods, notRunningSince, replaces, isServing }: Facts,
  workload: NamedWorkload,
  now: number,
): Progress {
  const ready = readyPods(deployment)
  const wanted = deployment.spec?.replicas ?? 1
  if (ready >= wanted || (isServing && ready > 0)) return { state: 'ready' }
  const created = Date.parse(deployment.metadata.creationTimestamp ?? '') || now
  const isUpgrade = replaces !== undefined && readyPods(replaces) > 0 && imageOf(replaces) !== imageOf(deployment)
  const until = Math.max(created, notRunningSince) + (isUpgrade ? upgradeMs : progressMs)
  const isLate = now >= until
  if (isLate && ready > 0) return { state: 'ready' }
  const own = pods.filter(({ type, digest }) => type === workload.type && digest === workload.digest)
  const troubles = own.flatMap(({ trouble }) => (trouble === undefined ? [] : [trouble]))
  const loops = troubles.find(({ reason, restarts }) => reason === 'CrashLoopBackOff' && restarts >= fewRestarts)
  if (loops !== undefined && ready === 0)
    return { state: 'failed', message: `it was restarted ${loops.restarts} times: ${loops.message}` }
  if (!isLate) return { state: 'starting', until }
  const [trouble] = troubles
  if (trouble !== undefined) return { state: 'failed', message: `${trouble.reason}: ${trouble.message}` }
  return {
    state: 'failed',
    message: refusalOf(deployment) ?? `no pod was ready after ${(isUpgrade ? upgradeMs : progressMs) / 1000} s`,
  }
}

const imageOf = ({ spec }: Deployment): string | undefined => spec?.template.spec?.containers[0]?.image

/** Why there are no pods: the Deployment is being deleted, or the cluster refuses pods by a quota or an admission policy. */
function refusalOf({ metadata, status }: Deployment): string | undefined {
  if (metadata.deletionTimestamp !== undefined)
    return `Deployment ${metadata.name} is being deleted, and waits for its finalizers: ${(metadata.finalizers ?? []).join(', ')}`
  const failure = status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return failure === undefined ? undefined : `the cluster refuses its pods: ${failure.message ?? failure.reason ?? ''}`
}
