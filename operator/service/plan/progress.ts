/** Whether the workload of a service is ready, still starting, or has failed. Pure. */
import type { Deployment } from '../../../cluster/index.ts'
import { progressSeconds } from '../deployment.ts'
import type { NamedWorkload } from '../names.ts'
import type { ServicePod } from '../observed.ts'
import { upgradeMs } from '../upgrades.ts'
import { imageOf, readyPods } from '../workloads.ts'

const progressMs = progressSeconds * 1000
/** After this many restarts, a pod counts as crashing repeatedly. */
const fewRestarts = 3

/**
 * `until`: when the workload fails if nothing changes, in ms since the epoch. `awaits-postgres`: it has no deadline.
 */
export type Progress =
  | { state: 'ready' }
  | { state: 'starting'; until: number }
  | { state: 'awaits-postgres' }
  | { state: 'failed'; message: string }

type Facts = {
  deployment: Deployment
  pods: readonly ServicePod[]
  /** When the services were last found not running, in ms since the epoch. */
  notRunningSince: number
  /** Another workload that serves until this one does. */
  replaces?: Deployment | undefined
  /**
   * The Service already selects this workload. It continues with its ready pods while another pod starts or moves to
   * another node.
   */
  isServing: boolean
  /** Postgres does not answer yet, so no pod can become ready. */
  awaitsPostgres: boolean
}

export function progressOf(
  { deployment, pods, notRunningSince, replaces, isServing, awaitsPostgres }: Facts,
  workload: NamedWorkload,
  now: number,
): Progress {
  const ready = readyPods(deployment)
  const wanted = deployment.spec?.replicas ?? 1
  if (ready >= wanted || (isServing && ready > 0)) return { state: 'ready' }
  if (awaitsPostgres && ready === 0) return { state: 'awaits-postgres' }
  const created = Date.parse(deployment.metadata.creationTimestamp ?? '') || now
  const isUpgrade = replaces !== undefined && readyPods(replaces) > 0 && imageOf(replaces) !== imageOf(deployment)
  const until = Math.max(created, notRunningSince) + (isUpgrade ? upgradeMs : progressMs)
  const isLate = now >= until
  if (isLate && ready > 0) return { state: 'ready' }
  const own = pods.filter(({ type, digest }) => type === workload.type && digest === workload.digest)
  const problems = own.flatMap(({ problem }) => (problem === undefined ? [] : [problem]))
  const loops = problems.find(({ reason, restarts }) => reason === 'CrashLoopBackOff' && restarts >= fewRestarts)
  if (loops !== undefined && ready === 0)
    return { state: 'failed', message: `a container was restarted ${loops.restarts} times: ${loops.message}` }
  if (!isLate) return { state: 'starting', until }
  const [problem] = problems
  if (problem !== undefined) return { state: 'failed', message: `${problem.reason}: ${problem.message}` }
  return {
    state: 'failed',
    message: refusalOf(deployment) ?? `no pod was ready after ${(isUpgrade ? upgradeMs : progressMs) / 1000} s`,
  }
}

/** Why no pods exist: the Deployment is being deleted, or a quota or an admission policy refuses the pods. */
function refusalOf({ metadata, status }: Deployment): string | undefined {
  if (metadata.deletionTimestamp !== undefined)
    return `Deployment ${metadata.name} is being deleted, and waits for its finalizers: ${(metadata.finalizers ?? []).join(', ')}`
  const failure = status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return failure === undefined ? undefined : `the cluster refuses its pods: ${failure.message ?? failure.reason ?? ''}`
}
