/** Writes the kubelet's changes of pods: node, finalizer and status. Writes each result through to the cache. */
import { isDeepStrictEqual } from 'node:util'
import { type Cluster, isClusterError, type ObjectKey, type Pod } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { timestamp } from '../../../values/time.ts'
import { podFinalizer } from '../workloads/template.ts'
import type { PodRun } from './pod.ts'
import { podStatus } from './view.ts'

type PodWriterOptions = {
  cluster: Cluster
  pods: Informer<'Pod'>
  nodeName: string
  now: () => number
  /** Enqueues a pod for another pass after a conflict. */
  enqueue: (pod: ObjectKey) => void
}

export class PodWriter {
  readonly #options: PodWriterOptions

  constructor(options: PodWriterOptions) {
    this.#options = options
  }

  /** Assigns a pod to this node. Adds a finalizer that keeps its object until its processes have ended. */
  async admit(pod: Pod): Promise<Pod> {
    const { cluster, pods, nodeName } = this.#options
    const { finalizers = [] } = pod.metadata
    if (finalizers.includes(podFinalizer) && pod.spec?.nodeName !== undefined) return pod
    const metadata = { ...pod.metadata, finalizers: [...new Set([...finalizers, podFinalizer])] }
    const spec = { containers: [], ...pod.spec, nodeName: pod.spec?.nodeName ?? nodeName }
    const written = await cluster.replace('Pod', { ...pod, metadata, spec })
    pods.writeThrough(written)
    return written
  }

  async writeUnschedulable(pod: Pod, message: string): Promise<void> {
    const { cluster, pods, now } = this.#options
    const lastTransitionTime = timestamp(now())
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime }
    const status = { ...pod.status, phase: 'Pending', conditions: [condition] }
    pods.writeThrough(await cluster.replaceStatus('Pod', { ...pod, status }))
  }

  /** Writes the status of a run if it differs from the pod's status. */
  async writeStatus(key: ObjectKey, run: PodRun): Promise<void> {
    const { cluster, pods, now } = this.#options
    const pod = pods.get(key)
    if (pod?.metadata.uid !== run.uid) return
    const status = podStatus(run.view, pod.status, now())
    if (isDeepStrictEqual(status, pod.status)) return
    try {
      pods.writeThrough(await cluster.replaceStatus('Pod', { ...pod, status }))
    } catch (error) {
      await this.#afterFailure(error, pod)
    }
  }

  /** Removes the finalizer, so that the cluster deletes the pod. */
  async release(pod: Pod): Promise<void> {
    const { finalizers = [] } = pod.metadata
    if (!finalizers.includes(podFinalizer)) return
    const metadata = { ...pod.metadata, finalizers: finalizers.filter(name => name !== podFinalizer) }
    try {
      await this.#options.cluster.replace('Pod', { ...pod, metadata })
    } catch (error) {
      await this.#afterFailure(error, pod)
    }
  }

  /**
   * Ignores that the pod does not exist. After a conflict, reads the pod and enqueues it at once. Throws all other
   * errors.
   */
  async #afterFailure(error: unknown, pod: Pod): Promise<void> {
    if (isClusterError(error, 'NotFound')) return
    if (!isClusterError(error, 'Conflict')) throw error
    const { cluster, pods, enqueue } = this.#options
    const stored = await cluster.get('Pod', pod.metadata)
    if (stored !== undefined) pods.writeThrough(stored)
    enqueue(pod.metadata)
  }
}
