/** Whether the workload of a service is ready, still starting, or has failed. Pure. */
import type { Deployment } from '../../../cluster/index.ts'
import { progressSeconds } from '../deployment.ts'
import type { NamedWorkload } from '../names.ts'
import type { ServicePod } from '../observed.ts'
import { upgradeMs } from '../upgrades.ts'
import { imageOf, readyPods } from '../workloads.ts'

const progressMs = progressSeconds * 1000
/** This many restarts after crashes count as a loop. */
const fewRestarts = 3

/** `until`: when it fails without a change, in ms since the epoch; `awaits-postgres`: it cannot be late. */
export type Progress =
  | { state: 'ready' }
  | { state: 'starting'; until: number }
  | { state: 'awaits-postgres' }
  | { state: 'failed'; message: string }

type Facts = {
  deployment: Deployment
  pods: readonly ServicePod[]
  /** When services were last found not to run, in ms since the epoch. */
  notRunningSince: number
  /** The workload that serves until this one does, if it is another. */
  replaces?: Deployment | undefined
  /** Its Service selects it already: it continues with its ready pods while another starts or moves to another node. */
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
    return { state: 'failed', message: `it was restarted ${loops.restarts} times: ${loops.message}` }
  if (!isLate) return { state: 'starting', until }
  const [problem] = problems
  if (problem !== undefined) return { state: 'failed', message: `${problem.reason}: ${problem.message}` }
  return {
    state: 'failed',
    message: refusalOf(deployment) ?? `no pod was ready after ${(isUpgrade ? upgradeMs : progressMs) / 1000} s`,
  }
}

/** Why there are no pods: the Deployment is being deleted, or the cluster refuses pods by a quota or an admission policy. */
function refusalOf({ metadata, status }: Deployment): string | undefined {
  if (metadata.deletionTimestamp !== undefined)
    return `Deployment ${metadata.name} is being deleted, and waits for its finalizers: ${(metadata.finalizers ?? []).join(', ')}`
  const failure = status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  return failure === undefined ? undefined : `the cluster refuses its pods: ${failure.message ?? failure.reason ?? ''}`
}
