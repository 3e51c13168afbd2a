/** Plans the next actions for a Job, and its status: one pod that must succeed, retried with growing delays. Pure. */
import type { Job, Pod } from '../../../cluster/index.ts'
import { timestamp } from '../../../values/time.ts'
import { isFinished, isTerminating, type PodAction, podFrom, randomSuffix } from './template.ts'

type Status = NonNullable<Job['status']>

type JobPlan = {
  actions: PodAction[]
  status: Status
  requeueAfterMs: number | undefined
  /** The Job's ttlSecondsAfterFinished has expired. */
  expired: boolean
}

export type JobLimits = { retryMs: number; mostRetryMs: number }
export const defaultJobLimits: JobLimits = { retryMs: 10_000, mostRetryMs: 360_000 }
const defaultBackoffLimit = 6

type JobInput = {
  job: Job
  pods: Pod[]
  nodeName: string
  now: number
  random: () => number
  limits: JobLimits
}

const seconds = (value: number | undefined): number | undefined => (value === undefined ? undefined : value * 1000)

export function planJob(input: JobInput): JobPlan {
  const { job, now } = input
  const finished = job.status?.conditions?.find(({ status }) => status === 'True')
  if (finished !== undefined) return planFinished(input, finished.lastTransitionTime)
  if (job.metadata.deletionTimestamp !== undefined) return plan(job.status ?? {})

  const { pods } = input
  const startTime = job.status?.startTime ?? timestamp(now)
  const active = pods.filter(pod => !isFinished(pod))
  // Never decreases: deleting a failed pod must not allow more retries.
  const failed = Math.max(job.status?.failed ?? 0, pods.filter(pod => pod.status?.phase === 'Failed').length)
  const succeeded = pods.filter(pod => pod.status?.phase === 'Succeeded').length
  const status: Status = { startTime, active: active.length, succeeded, failed }

  if (succeeded > 0) return finish(input, status, 'Complete', 'CompletionsReached', 'the pod has succeeded')
  const limit = job.spec?.backoffLimit ?? defaultBackoffLimit
  if (failed > limit || pastRestarts(job, active, limit)) {
    return finish(input, status, 'Failed', 'BackoffLimitExceeded', 'the pod has failed as often as backoffLimit allows')
  }
  const deadline = seconds(job.spec?.activeDeadlineSeconds)
  const remainingMs = deadline === undefined ? undefined : Date.parse(startTime) + deadline - now
  if (remainingMs !== undefined && remainingMs <= 0) {
    return finish(input, status, 'Failed', 'DeadlineExceeded', 'the Job has run for longer than activeDeadlineSeconds')
  }
  if (active.length > 0) return plan(status, [], remainingMs)
  const wait = retryWait(input, failed)
  if (wait > 0) return plan(status, [], Math.min(wait, remainingMs ?? wait))
  return plan({ ...status, active: 1 }, [create(input)], remainingMs)
}

const plan = (status: Status, actions: PodAction[] = [], requeueAfterMs?: number): JobPlan => ({
  actions,
  status,
  requeueAfterMs,
  expired: false,
})

function create({ job, nodeName, random }: JobInput): PodAction {
  const labels = {
    'batch.kubernetes.io/job-name': job.metadata.name,
    'batch.kubernetes.io/controller-uid': job.metadata.uid ?? '',
    'job-name': job.metadata.name,
  }
  return { do: 'create', pod: podFrom(job, { name: `${job.metadata.name}-${randomSuffix(random)}`, nodeName, labels }) }
}

/** With restartPolicy OnFailure, the container is restarted inside its pod. These restarts count too. */
function pastRestarts(job: Job, active: Pod[], limit: number): boolean {
  if (job.spec?.template.spec?.restartPolicy !== 'OnFailure') return false
  const statuses = active.flatMap(({ status }) => [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
  ])
  const restarts = statuses.reduce((sum, { restartCount }) => sum + restartCount, 0)
  return limit === 0 ? restarts > 0 : restarts >= limit
}

/** The delay until the next attempt. It starts at the end of the last attempt and doubles after each failure. */
function retryWait({ pods, now, limits }: JobInput, failed: number): number {
  if (failed === 0) return 0
  const ends = pods.flatMap(pod =>
    (pod.status?.containerStatuses ?? []).map(({ state }) => Date.parse(state?.terminated?.finishedAt ?? '') || 0),
  )
  const wait = Math.min(limits.retryMs * 2 ** (failed - 1), limits.mostRetryMs)
  return Math.max(0, ...ends) + wait - now
}

function finish(
  { pods, now }: JobInput,
  status: Status,
  type: 'Complete' | 'Failed',
  reason: string,
  message: string,
): JobPlan {
  const time = timestamp(now)
  const condition = { type, status: 'True', reason, message, lastTransitionTime: time, lastProbeTime: time }
  const running = pods.filter(pod => !isFinished(pod) && !isTerminating(pod))
  return plan(
    {
      ...status,
      active: 0,
      failed: (status.failed ?? 0) + (type === 'Failed' ? running.length : 0),
      conditions: [condition],
      ...(type === 'Complete' && { completionTime: time }),
    },
    running.map(pod => ({ do: 'delete', pod })),
  )
}

/** A finished Job only waits for its TTL. A pod that still runs after a crash is deleted. */
function planFinished({ job, pods, now }: JobInput, finishedAt: string | undefined): JobPlan {
  const ttl = seconds(job.spec?.ttlSecondsAfterFinished)
  const remainingMs = ttl === undefined ? undefined : (Date.parse(finishedAt ?? '') || now) + ttl - now
  const running = pods.filter(pod => !isFinished(pod) && !isTerminating(pod))
  return {
    actions: running.map(pod => ({ do: 'delete', pod })),
    status: job.status ?? {},
    requeueAfterMs: remainingMs,
    expired: remainingMs !== undefined && remainingMs <= 0 && job.metadata.deletionTimestamp === undefined,
  }
}
