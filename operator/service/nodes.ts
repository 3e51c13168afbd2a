/**
 * Whether services can have one pod on each of two nodes. The operator lists nodes at most once a minute, and stops
 * when it has found two. A drained or lost node returns in most cases. So a single node counts as one only after half
 * an hour. Until then the result is unknown, and each service keeps its number of pods.
 */
import type { Cluster, Node } from '../../cluster/index.ts'
import { ClusterError } from '../../cluster/index.ts'
import type { PodSettings } from '../pod-settings.ts'

export type Nodes = 'several' | 'one' | 'unknown'

export type NodeCount = () => Promise<Nodes>

type Placement = Pick<PodSettings, 'nodeSelector' | 'tolerations'>

const intervalMs = 60_000
const lossMs = 30 * 60_000
const pageSize = 20

type NodeCountOptions = {
  cluster: Pick<Cluster, 'list'>
  podSettings: Placement
  now: () => number
}

export function createNodeCount({ cluster, podSettings, now }: NodeCountOptions): NodeCount {
  let known: Nodes = 'unknown'
  let fewSince: number | undefined
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  async function read(): Promise<void> {
    const isSeveral = await hasSeveral(cluster, podSettings)
    readAt = now()
    // An unknown result does not show whether a node was missing before.
    if (isSeveral === undefined) return
    if (isSeveral) {
      fewSince = undefined
      known = 'several'
      return
    }
    fewSince ??= readAt
    known = readAt - fewSince >= lossMs ? 'one' : 'unknown'
  }

  return async () => {
    if (Math.abs(now() - readAt) >= intervalMs) {
      reading ??= read().finally(() => {
        reading = undefined
      })
      await reading
    }
    return known
  }
}

/** Undefined if the operator may not list nodes, or gets no answer. It still manages databases. */
async function hasSeveral(cluster: Pick<Cluster, 'list'>, podSettings: Placement): Promise<boolean | undefined> {
  let found = 0
  let continueToken: string | undefined
  try {
    do {
      const page = await cluster.list('Node', { limit: pageSize, continueToken })
      found += page.items.filter(node => mayRunOn(node, podSettings)).length
      continueToken = page.continueToken
    } while (found < 2 && continueToken !== undefined)
  } catch (error) {
    if (error instanceof ClusterError) return undefined
    throw error
  }
  return found >= 2
}

/** Ignores affinity. A second pod that no node can run stays pending, and its service runs with one pod. */
export function mayRunOn({ metadata, spec, status }: Node, { nodeSelector, tolerations }: Placement): boolean {
  const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
  const isSelected = Object.entries(nodeSelector).every(([key, value]) => metadata.labels?.[key] === value)
  const isTainted = (spec?.taints ?? []).some(
    ({ key, value = '', effect }) =>
      effect !== 'PreferNoSchedule' &&
      !tolerations.some(
        toleration =>
          (toleration.key === undefined || toleration.key === key) &&
          (toleration.effect === undefined || toleration.effect === effect) &&
          (toleration.operator === 'Exists' || (toleration.value ?? '') === value),
      ),
  )
  return isReady && isSelected && !isTainted && spec?.unschedulable !== true
}

/** `chosen`: the installation's setting. `present`: the service's current number of pods. */
export const replicasOf = (chosen: 1 | 2 | 'auto', nodes: Nodes, present: number | undefined): 1 | 2 => {
  if (chosen !== 'auto') return chosen
  if (nodes === 'unknown') return present === 2 ? 2 : 1
  return nodes === 'several' ? 2 : 1
}
