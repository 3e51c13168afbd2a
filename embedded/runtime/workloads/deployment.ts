/** Plans the next actions for a Deployment, and its status. Old pods are deleted only when new pods are ready. Pure. */
import type { Deployment, Pod } from '../../../cluster/index.ts'
import { timestamp } from '../../../values/time.ts'
import { isFinished, isReady, isTerminating, type PodAction, podFrom, randomSuffix, revisionOf } from './template.ts'

type Status = NonNullable<Deployment['status']>
type Condition = NonNullable<Status['conditions']>[number]

type DeploymentPlan = {
  actions: PodAction[]
  status: Status
  /** When the plan must be made again even if nothing changes. */
  requeueAfterMs: number | undefined
}

const templateLabel = 'pod-template-hash'
const defaultDeadlineSeconds = 600

/** A number of pods: absolute, or a percentage of all. */
function share(value: string | number | undefined, replicas: number, round: (value: number) => number): number {
  if (typeof value === 'number') return value
  const percent = /^(\d+)%$/.exec(value ?? '25%')?.[1]
  return percent === undefined ? 0 : round((Number(percent) / 100) * replicas)
}

type DeploymentInput = {
  deployment: Deployment
  pods: Pod[]
  nodeName: string
  now: number
  random: () => number
}

export function planDeployment(input: DeploymentInput): DeploymentPlan {
  const { deployment, pods, nodeName, random } = input
  const { spec, metadata } = deployment
  const replicas = spec?.replicas ?? 1
  const revision = revisionOf(spec?.template)
  const recreate = spec?.strategy?.type === 'Recreate'
  const surge = recreate ? 0 : share(spec?.strategy?.rollingUpdate?.maxSurge, replicas, Math.ceil)
  const unavailable = recreate ? replicas : share(spec?.strategy?.rollingUpdate?.maxUnavailable, replicas, Math.floor)
  const minimum = replicas - (surge === 0 && unavailable === 0 ? 1 : unavailable)

  const active = pods.filter(pod => !isTerminating(pod) && !isFinished(pod))
  const isNew = (pod: Pod): boolean => pod.metadata.labels?.[templateLabel] === revision
  const [fresh, old] = [active.filter(isNew), active.filter(pod => !isNew(pod))]
  const status = statusOf(input, { active, fresh, minimum, replicas })
  if (metadata.deletionTimestamp !== undefined) return { actions: [], status, requeueAfterMs: undefined }

  const remove = (some: Pod[]): PodAction[] => some.map(pod => ({ do: 'delete', pod }))
  const unreadyFirst = (some: Pod[]): Pod[] => some.toSorted((a, b) => Number(isReady(a)) - Number(isReady(b)))
  const available = recreate ? (pods.some(pod => !isNew(pod)) ? 0 : replicas) : replicas + surge - active.length
  const missing = Math.max(0, Math.min(replicas - fresh.length, available))
  const created = Array.from({ length: missing }, (): PodAction => {
    const name = `${metadata.name}-${revision}-${randomSuffix(random)}`
    return { do: 'create', pod: podFrom(deployment, { name, nodeName, labels: { [templateLabel]: revision } }) }
  })
  const spare = Math.max(0, active.filter(isReady).length - Math.max(0, minimum))
  const readyOld = old.filter(isReady).slice(0, spare)
  const unreadyOld = old.filter(pod => !isReady(pod))
  const surplus = unreadyFirst(fresh).slice(0, Math.max(0, fresh.length - replicas))
  const finished = pods.filter(pod => isFinished(pod) && !isTerminating(pod))
  return {
    actions: [...created, ...remove([...finished, ...surplus, ...unreadyOld, ...readyOld])],
    status,
    requeueAfterMs: requeueAfter(input, status),
  }
}

type Counts = { active: Pod[]; fresh: Pod[]; minimum: number; replicas: number }

function statusOf({ deployment, now }: DeploymentInput, { active, fresh, minimum, replicas }: Counts): Status {
  const previous = deployment.status
  const available = active.filter(isReady).length
  const counts = {
    replicas: active.length,
    updatedReplicas: fresh.length,
    readyReplicas: available,
    availableReplicas: available,
    unavailableReplicas: Math.max(0, replicas - available),
  }
  const condition = (type: string, isTrue: boolean, reason: string, updatedAt: string): Condition => {
    const status = isTrue ? 'True' : 'False'
    const before = previous?.conditions?.find(candidate => candidate.type === type)
    const lastTransitionTime =
      before?.status === status ? (before.lastTransitionTime ?? timestamp(now)) : timestamp(now)
    return { type, status, reason, lastTransitionTime, lastUpdateTime: updatedAt }
  }
  const enough = available >= minimum
  const complete = fresh.length === replicas && active.length === replicas && available === replicas
  const progressed =
    deployment.metadata.generation !== previous?.observedGeneration ||
    (['replicas', 'updatedReplicas', 'readyReplicas'] as const).some(name => counts[name] !== previous?.[name])
  const before = previous?.conditions?.find(({ type }) => type === 'Progressing')?.lastUpdateTime
  const since = progressed || before === undefined ? timestamp(now) : before
  const late = !complete && now - Date.parse(since) >= deadlineMs(deployment)
  const reason = complete ? 'NewReplicaSetAvailable' : late ? 'ProgressDeadlineExceeded' : 'ReplicaSetUpdated'
  return {
    observedGeneration: deployment.metadata.generation ?? 0,
    ...counts,
    conditions: [
      condition('Available', enough, enough ? 'MinimumReplicasAvailable' : 'MinimumReplicasUnavailable', since),
      condition('Progressing', !late, reason, since),
    ],
  }
}

/** The status of a Deployment whose pods the cluster refuses. */
export function withFailure(status: Status, deployment: Deployment, refusal: Error, now: number): Status {
  // Each attempt has another pod name. If the message contained the name, every attempt would change the status, and
  // every status change would cause an attempt.
  const message = refusal.message.replace(/^[a-zA-Z]+ "[^"]*" is (forbidden|invalid): /, '')
  const before = deployment.status?.conditions?.find(({ type }) => type === 'ReplicaFailure')
  const at = before?.lastTransitionTime ?? timestamp(now)
  const failure = { type: 'ReplicaFailure', status: 'True' as const, reason: 'FailedCreate', message }
  return {
    ...status,
    conditions: [...(status.conditions ?? []), { ...failure, lastTransitionTime: at, lastUpdateTime: at }],
  }
}

const deadlineMs = ({ spec }: Deployment): number => (spec?.progressDeadlineSeconds ?? defaultDeadlineSeconds) * 1000

/** Time until the deadline of a running rollout. */
function requeueAfter({ deployment, now }: DeploymentInput, { conditions }: Status): number | undefined {
  const progressing = conditions?.find(({ type }) => type === 'Progressing')
  if (progressing?.reason !== 'ReplicaSetUpdated' || progressing.lastUpdateTime === undefined) return undefined
  return Math.max(0, Date.parse(progressing.lastUpdateTime) + deadlineMs(deployment) - now) + 1000
}
