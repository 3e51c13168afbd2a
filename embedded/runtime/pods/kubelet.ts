/**
 * Brings the pods of the cluster and the processes of this machine in line, and tells the cluster how its pods are. One
 * pass per pod looks at the pod and at its run and does the next thing; what takes long runs beside it and asks for
 * another pass when it is done.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { type Cluster, isClusterError, type ObjectKey, type Pod } from '../../../cluster/index.ts'
import { type Informer, keyText, parseKey } from '../../../cluster/informer/index.ts'
import { type Controller, type ReconcileResult, startController } from '../../../controller/index.ts'
import { timestamp } from '../../../values/time.ts'
import { isFinished, podFinalizer } from '../workloads/template.ts'
import { type PodHost, type PodRun, removePodDirectory, startPod } from './pod.ts'
import { isPodReady, podStatus } from './view.ts'

type KubeletOptions = {
  cluster: Cluster
  pods: Informer<'Pod'>
  host: PodHost
  nodeName: string
  /** What `readyAddress` and `address` return of a pod may have changed. */
  onAddress: (pod: ObjectKey) => void
  logger: Logger
}

export type Kubelet = {
  /**
   * Resolves when every pod that was there at the start has been looked at once: what an earlier run last said of it,
   * perhaps that it is ready, no longer stands.
   */
  started: Promise<void>
  /** The address of a pod that is ready now. */
  readyAddress(pod: Pod): string | undefined
  /** Of a pod that runs, ready or not. */
  address(pod: Pod): string | undefined
  /** A volume that pods of this namespace may wait for has changed; undefined: of any. */
  poke(namespace?: string): void
  /** A Secret or ConfigMap has changed. */
  refresh(namespace: string, reference: string): void
  /** Ends all pods, those that databases may depend on last, and leaves their objects to the next start. */
  stop(): Promise<void>
}

type Entry = { run: PodRun; ending: boolean }

/** As many passes side by side; a pass never waits for a process. */
const workers = 16

export function startKubelet({ cluster, pods, host, nodeName, onAddress, logger }: KubeletOptions): Kubelet {
  /** By the pod's name: a pod made again under its old name waits for the end of its predecessor. */
  const runs = new Map<string, Entry>()
  /** Pods that no node is given to, by name. */
  const unscheduled = new Set<string>()
  let stopping = false

  const started = Promise.withResolvers<void>()
  const unseen = new Set(pods.list().map(pod => keyText(pod.metadata)))
  const seen = (text: string) => {
    unseen.delete(text)
    if (unseen.size === 0) started.resolve()
  }
  if (unseen.size === 0) started.resolve()

  const controller: Controller = startController({
    name: 'pods',
    workers,
    reconcile: text => reconcile(parseKey(text)).finally(() => seen(text)),
    keys: () => pods.list().map(pod => keyText(pod.metadata)),
    logger,
  })
  const unsubscribe = pods.onChange(({ object }) => controller.enqueue(keyText(object.metadata)))

  async function reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const text = keyText(key)
    const pod = pods.get(key)
    const uid = pod?.metadata.uid
    const running = runs.get(text)
    if (running !== undefined && running.run.uid !== uid) void end(running, text)
    if (pod === undefined || uid === undefined) {
      unscheduled.delete(text)
      return undefined
    }

    const entry = runOf(text, uid)
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (entry === undefined) await release(pod)
      else void end(entry, text)
    } else if (entry === undefined) await begin(pod, text)
    const run = runOf(text, uid)?.run
    if (run !== undefined) await report(key, run)
    return undefined
  }

  function runOf(text: string, uid: string | undefined): Entry | undefined {
    const entry = runs.get(text)
    return entry?.run.uid === uid ? entry : undefined
  }

  async function begin(pod: Pod, text: string): Promise<void> {
    // The earlier pod of the same name must be gone from the machine first; its end asks for another pass.
    // A pod with scheduling gates is given no node before somebody removes them.
    const isGated = (pod.spec?.schedulingGates ?? []).length > 0
    if (stopping || runs.has(text) || isFinished(pod) || isGated) return
    const obstacle = pod.spec?.nodeName === undefined ? obstacleTo(pod) : undefined
    if (obstacle !== undefined) return leave(pod, text, obstacle)
    unscheduled.delete(text)
    const admitted = await admit(pod)
    const changed = (): void => {
      controller.enqueue(text)
      onAddress(parseKey(text))
    }
    runs.set(text, { run: startPod(host, admitted, changed), ending: false })
  }

  /**
   * Why no node is given to a pod. One that is not given a node does not use its claims: a claim that is being deleted goes,
   * whatever is made in its name meanwhile.
   */
  function obstacleTo({ metadata, spec }: Pod): string | undefined {
    for (const { persistentVolumeClaim } of spec?.volumes ?? []) {
      if (persistentVolumeClaim === undefined) continue
      const claim = host.findClaim(metadata.namespace ?? '', persistentVolumeClaim.claimName)
      if (!claim.bound && claim.isTerminating) return claim.message
    }
    const labels: Record<string, string> = { 'kubernetes.io/hostname': nodeName, 'kubernetes.io/os': 'linux' }
    const fits = Object.entries(spec?.nodeSelector ?? {}).every(([label, value]) => labels[label] === value)
    return fits ? undefined : "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
  }

  async function leave(pod: Pod, text: string, message: string): Promise<void> {
    unscheduled.add(text)
    const before = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
    if (before?.status === 'False' && before.message === message) return
    host.warn(pod, 'FailedScheduling', message)
    const lastTransitionTime = timestamp(host.now())
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime }
    const status = { ...pod.status, phase: 'Pending', conditions: [condition] }
    pods.writeThrough(await cluster.replaceStatus('Pod', { ...pod, status }))
  }

  /** Marks the pod as run here, so that it is not gone before its processes are. */
  async function admit(pod: Pod): Promise<Pod> {
    const { finalizers = [] } = pod.metadata
    if (finalizers.includes(podFinalizer) && pod.spec?.nodeName !== undefined) return pod
    const metadata = { ...pod.metadata, finalizers: [...new Set([...finalizers, podFinalizer])] }
    const spec = { containers: [], ...pod.spec, nodeName: pod.spec?.nodeName ?? nodeName }
    const written = await cluster.replace('Pod', { ...pod, metadata, spec })
    pods.writeThrough(written)
    return written
  }

  async function end(entry: Entry, text: string): Promise<void> {
    if (entry.ending) return
    entry.ending = true
    await entry.run.stop()
    await removePodDirectory(host.layout, entry.run.uid).catch(error =>
      logger.warn({ err: error, pod: text }, 'the directory of a pod could not be removed'),
    )
    runs.delete(text)
    controller.enqueue(text)
  }

  /** Lets go of a pod whose processes are gone. */
  async function release(pod: Pod): Promise<void> {
    await removePodDirectory(host.layout, pod.metadata.uid ?? '')
    const { finalizers = [] } = pod.metadata
    if (!finalizers.includes(podFinalizer)) return
    const metadata = { ...pod.metadata, finalizers: finalizers.filter(name => name !== podFinalizer) }
    try {
      await cluster.replace('Pod', { ...pod, metadata })
    } catch (error) {
      if (isClusterError(error, 'NotFound')) return
      await refreshed(error, pod)
    }
  }

  /** Writes the pod's status where it differs from what the cluster has. */
  async function report(key: ObjectKey, run: PodRun): Promise<void> {
    const pod = pods.get(key)
    if (pod?.metadata.uid !== run.uid) return
    const status = podStatus(run.view, pod.status, host.now())
    if (isDeepStrictEqual(status, pod.status)) return
    try {
      pods.writeThrough(await cluster.replaceStatus('Pod', { ...pod, status }))
    } catch (error) {
      if (isClusterError(error, 'NotFound')) return
      await refreshed(error, pod)
    }
  }

  /** After a conflict: takes in what is stored now and lets the pass be made again at once. */
  async function refreshed(error: unknown, pod: Pod): Promise<void> {
    if (!isClusterError(error, 'Conflict')) throw error
    const stored = await cluster.get('Pod', pod.metadata)
    if (stored !== undefined) pods.writeThrough(stored)
    controller.enqueue(keyText(pod.metadata))
  }

  /** Services and jobs first, then what owns data. */
  async function stopAll(): Promise<void> {
    const isStateful = (key: ObjectKey): boolean =>
      pods.get(key)?.metadata.ownerReferences?.some(({ kind }) => kind === 'StatefulSet') === true
    const all = [...runs].map(([text, { run }]) => ({ run, key: parseKey(text) }))
    for (const last of [false, true]) {
      await Promise.all(all.filter(({ key }) => isStateful(key) === last).map(({ key, run }) => stopOne(key, run)))
    }
  }

  async function stopOne(key: ObjectKey, run: PodRun): Promise<void> {
    await run.stop()
    await report(key, run).catch(error => logger.debug({ err: error }, 'the last status of a pod could not be written'))
  }

  const viewOf = ({ metadata }: Pod) =>
    metadata.deletionTimestamp === undefined ? runOf(keyText(metadata), metadata.uid)?.run.view : undefined

  return {
    started: started.promise,
    readyAddress(pod) {
      const view = viewOf(pod)
      return view && isPodReady(view) ? view.ip : undefined
    },
    address: pod => viewOf(pod)?.ip,
    poke(namespace) {
      for (const text of unscheduled) {
        if (namespace === undefined || parseKey(text).namespace === namespace) controller.enqueue(text)
      }
      for (const [text, { run }] of runs) {
        if (namespace === undefined || parseKey(text).namespace === namespace) run.poke()
      }
    },
    refresh(namespace, reference) {
      for (const [text, { run }] of runs) {
        if (run.references.has(reference) && parseKey(text).namespace === namespace) run.refresh()
      }
    },
    async stop() {
      stopping = true
      unsubscribe()
      await stopAll()
      await controller.stop()
    },
  }
}
