/** Plans the next actions for a StatefulSet, and its status: pods with stable names, one after another. Pure. */
import type { Pod, StatefulSet } from '../../../cluster/index.ts'
import { isFinished, isReady, isTerminating, type PodAction, podFrom, revisionLabel, revisionOf } from './template.ts'

type Status = NonNullable<StatefulSet['status']>

type StatefulSetPlan = { actions: PodAction[]; status: Status }

const ordinalOf = (pod: Pod): number => Number(/-(\d+)$/.exec(pod.metadata.name)?.[1] ?? Number.NaN)

export function planStatefulSet(set: StatefulSet, pods: Pod[], nodeName: string): StatefulSetPlan {
  const revision = `${set.metadata.name}-${revisionOf(set.spec?.template)}`
  const actions = set.metadata.deletionTimestamp === undefined ? actionsOf(set, pods, revision, nodeName) : []
  return { actions, status: statusOf(set, pods, revision) }
}

function actionsOf(set: StatefulSet, pods: Pod[], revision: string, nodeName: string): PodAction[] {
  const replicas = set.spec?.replicas ?? 1
  const isOrdered = set.spec?.podManagementPolicy !== 'Parallel'
  const byOrdinal = new Map(pods.map(pod => [ordinalOf(pod), pod]))
  const actions: PodAction[] = []

  for (let ordinal = 0; ordinal < replicas; ordinal += 1) {
    const pod = byOrdinal.get(ordinal)
    if (pod === undefined) {
      const name = `${set.metadata.name}-${ordinal}`
      const labels = {
        [revisionLabel]: revision,
        'statefulset.kubernetes.io/pod-name': name,
        'apps.kubernetes.io/pod-index': String(ordinal),
      }
      actions.push({ do: 'create', pod: podFrom(set, { name, nodeName, labels }) })
    } else if (isFinished(pod) && !isTerminating(pod)) actions.push({ do: 'delete', pod })
    if (isOrdered && (pod === undefined || !isReady(pod))) break
  }
  if (actions.length > 0) return actions

  const surplus = [...byOrdinal].filter(([ordinal]) => !(ordinal < replicas)).sort(([a], [b]) => b - a)
  for (const [, pod] of surplus) {
    if (!isTerminating(pod)) actions.push({ do: 'delete', pod })
    if (isOrdered) return actions
  }
  return actions.length > 0 || set.spec?.updateStrategy?.type === 'OnDelete'
    ? actions
    : nextOutdated(byOrdinal, replicas, revision)
}

/**
 * Handles outdated pods one at a time, from the highest ordinal down. It deletes a pod of an older revision; the new
 * pod must be ready before the next pod is deleted.
 */
function nextOutdated(byOrdinal: Map<number, Pod>, replicas: number, revision: string): PodAction[] {
  for (let ordinal = replicas - 1; ordinal >= 0; ordinal -= 1) {
    const pod = byOrdinal.get(ordinal)
    if (pod === undefined || isTerminating(pod)) return []
    if (pod.metadata.labels?.[revisionLabel] !== revision) return [{ do: 'delete', pod }]
    if (!isReady(pod)) return []
  }
  return []
}

function statusOf(set: StatefulSet, pods: Pod[], revision: string): Status {
  const replicas = set.spec?.replicas ?? 1
  const present = pods.filter(pod => !isFinished(pod))
  const ready = present.filter(isReady).length
  const ofRevision = (wanted: string) => present.filter(pod => pod.metadata.labels?.[revisionLabel] === wanted).length
  const updated = ofRevision(revision)
  const complete = present.length === replicas && updated === replicas && ready === replicas
  const current = complete ? revision : (set.status?.currentRevision ?? revision)
  return {
    observedGeneration: set.metadata.generation ?? 0,
    replicas: present.length,
    readyReplicas: ready,
    availableReplicas: ready,
    currentReplicas: ofRevision(current),
    updatedReplicas: updated,
    currentRevision: current,
    updateRevision: revision,
  }
}
