/**
 * Whether services can have a pod on each of two nodes. Nodes are listed at most once a minute, and only until two are found. A node that is
 * drained or lost returns in most cases, so one node counts as one only after half an hour. Until then nothing is known, and each service
 * keeps the pods that it has.
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
    // An unknown state gives no information about nodes that were missing before.
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

/** Undefined if the operator may not list nodes, or gets no answer: databases are managed anyway. */
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

/** Affinity is not evaluated: a second pod that fits on no node stays pending, and its service runs with one. */
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

/** `chosen`: by the installation. `present`: the service's current number. */
export const replicasOf = (chosen: 1 | 2 | 'auto', nodes: Nodes, present: number | undefined): 1 | 2 => {
  if (chosen !== 'auto') return chosen
  if (nodes === 'unknown') return present === 2 ? 2 : 1
  return nodes === 'several' ? 2 : 1
}
