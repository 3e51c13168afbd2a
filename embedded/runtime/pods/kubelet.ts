/**
 * Runs the cluster's pods as processes of this machine and writes their status. One pass per pod compares the pod with
 * its run and takes the next step. A long step runs in the background and enqueues the pod when it has ended.
 */
import type { Logger } from 'pino'
import type { Cluster, ObjectKey, Pod } from '../../../cluster/index.ts'
import { type Informer, keyText, parseKey } from '../../../cluster/informer/index.ts'
import { type Controller, type ReconcileResult, startController } from '../../../controller/index.ts'
import { isFinished } from '../workloads/template.ts'
import { type PodRun, removePodDirectory, startPod } from './pod.ts'
import type { PodHost } from './pod-host.ts'
import { PodWriter } from './pod-writer.ts'
import { isPodReady, type PodView } from './view.ts'

type KubeletOptions = {
  cluster: Cluster
  pods: Informer<'Pod'>
  host: PodHost
  nodeName: string
  /** Called when the result of `readyAddress` or `address` for this pod may have changed. */
  onAddress: (pod: ObjectKey) => void
  logger: Logger
}

export type Kubelet = {
  /**
   * Resolves when every pod that existed at the start has had one pass. From then on, no pod has an outdated status
   * from an earlier process, such as ready.
   */
  started: Promise<void>
  /** Returns the pod's address if the pod is ready now. */
  readyAddress(pod: Pod): string | undefined
  /** Returns the pod's address if the pod runs, ready or not. */
  address(pod: Pod): string | undefined
  /** Retries pods of this namespace that may wait for a volume; without a namespace, all pods. */
  wake(namespace?: string): void
  /** Updates the files of pods that use this Secret or ConfigMap, after it has changed. */
  refresh(namespace: string, reference: string): void
  /** Stops all pods; the pods of StatefulSets stop last. Their objects stay for the next start. */
  stop(): Promise<void>
}

type Entry = { run: PodRun; ending: boolean }

/** The number of concurrent passes. A pass never waits for a process. */
const workers = 16

export function startKubelet(options: KubeletOptions): Kubelet {
  return new ProcessKubelet(options)
}

class ProcessKubelet implements Kubelet {
  readonly started: Promise<void>
  readonly #pods: Informer<'Pod'>
  readonly #host: PodHost
  readonly #nodeName: string
  readonly #onAddress: (pod: ObjectKey) => void
  readonly #logger: Logger
  readonly #writer: PodWriter
  readonly #controller: Controller
  readonly #unsubscribe: () => void
  /** Runs by pod name. A new pod with the name of an earlier pod waits until the earlier pod has ended. */
  readonly #runs = new Map<string, Entry>()
  /** Names of pods that cannot be scheduled. */
  readonly #unscheduled = new Set<string>()
  #stopping = false

  constructor({ cluster, pods, host, nodeName, onAddress, logger }: KubeletOptions) {
    this.#pods = pods
    this.#host = host
    this.#nodeName = nodeName
    this.#onAddress = onAddress
    this.#logger = logger
    const { started, seen } = untilAllSeen(pods.list().map(pod => keyText(pod.metadata)))
    this.started = started
    this.#controller = startController({
      name: 'pods',
      workers,
      reconcile: text => this.#reconcile(parseKey(text)).finally(() => seen(text)),
      keys: () => pods.list().map(pod => keyText(pod.metadata)),
      logger,
    })
    const enqueue = (pod: ObjectKey): void => this.#controller.enqueue(keyText(pod))
    this.#writer = new PodWriter({ cluster, pods, nodeName, now: host.now, enqueue })
    this.#unsubscribe = pods.onChange(({ object }) => enqueue(object.metadata))
  }

  readyAddress(pod: Pod): string | undefined {
    const view = this.#viewOf(pod)
    return view && isPodReady(view) ? view.ip : undefined
  }

  address(pod: Pod): string | undefined {
    return this.#viewOf(pod)?.ip
  }

  wake(namespace?: string): void {
    for (const text of this.#unscheduled) {
      if (namespace === undefined || parseKey(text).namespace === namespace) this.#controller.enqueue(text)
    }
    for (const [text, { run }] of this.#runs) {
      if (namespace === undefined || parseKey(text).namespace === namespace) run.wake()
    }
  }

  refresh(namespace: string, reference: string): void {
    for (const [text, { run }] of this.#runs) {
      if (run.references.has(reference) && parseKey(text).namespace === namespace) run.refresh()
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.#unsubscribe()
    await this.#stopAll()
    await this.#controller.stop()
  }

  async #reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const text = keyText(key)
    const pod = this.#pods.get(key)
    const uid = pod?.metadata.uid
    const running = this.#runs.get(text)
    if (running !== undefined && running.run.uid !== uid) void this.#end(running, text)
    if (pod === undefined || uid === undefined) {
      this.#unscheduled.delete(text)
      return undefined
    }

    const entry = this.#entryOf(text, uid)
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (entry === undefined) await this.#release(pod)
      else void this.#end(entry, text)
    } else if (entry === undefined) await this.#begin(pod, text)
    const run = this.#entryOf(text, uid)?.run
    if (run !== undefined) await this.#writer.writeStatus(key, run)
    return undefined
  }

  #entryOf(text: string, uid: string | undefined): Entry | undefined {
    const entry = this.#runs.get(text)
    return entry?.run.uid === uid ? entry : undefined
  }

  #viewOf({ metadata }: Pod): PodView | undefined {
    if (metadata.deletionTimestamp !== undefined) return undefined
    return this.#entryOf(keyText(metadata), metadata.uid)?.run.view
  }

  async #begin(pod: Pod, text: string): Promise<void> {
    // An earlier pod of the same name must end first. Its end enqueues this pod.
    // A pod with scheduling gates is scheduled only after a client removes the gates.
    const isGated = (pod.spec?.schedulingGates ?? []).length > 0
    if (this.#stopping || this.#runs.has(text) || isFinished(pod) || isGated) return
    const obstacle = pod.spec?.nodeName === undefined ? this.#obstacleTo(pod) : undefined
    if (obstacle !== undefined) return this.#leaveUnscheduled(pod, text, obstacle)
    this.#unscheduled.delete(text)
    const admitted = await this.#writer.admit(pod)
    const changed = (): void => {
      this.#controller.enqueue(text)
      this.#onAddress(parseKey(text))
    }
    this.#runs.set(text, { run: startPod(this.#host, admitted, changed), ending: false })
  }

  /**
   * Returns why a pod cannot be scheduled. An unscheduled pod does not use its claims. So a claim that is being deleted
   * is deleted even if a new pod names it.
   */
  #obstacleTo({ metadata, spec }: Pod): string | undefined {
    for (const { persistentVolumeClaim } of spec?.volumes ?? []) {
      if (persistentVolumeClaim === undefined) continue
      const claim = this.#host.findClaim(metadata.namespace ?? '', persistentVolumeClaim.claimName)
      if (!claim.bound && claim.isTerminating) return claim.message
    }
    const labels: Record<string, string> = { 'kubernetes.io/hostname': this.#nodeName, 'kubernetes.io/os': 'linux' }
    const fits = Object.entries(spec?.nodeSelector ?? {}).every(([label, value]) => labels[label] === value)
    return fits ? undefined : "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
  }

  async #leaveUnscheduled(pod: Pod, text: string, message: string): Promise<void> {
    this.#unscheduled.add(text)
    const before = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
    if (before?.status === 'False' && before.message === message) return
    this.#host.warn(pod, 'FailedScheduling', message)
    await this.#writer.writeUnschedulable(pod, message)
  }

  async #end(entry: Entry, text: string): Promise<void> {
    if (entry.ending) return
    entry.ending = true
    await entry.run.stop()
    await removePodDirectory(this.#host.layout, entry.run.uid).catch(error =>
      this.#logger.warn({ err: error, pod: text }, 'the directory of a pod could not be removed'),
    )
    this.#runs.delete(text)
    this.#controller.enqueue(text)
  }

  /** Deletes the files of a pod whose processes have ended, so that its object can be deleted. */
  async #release(pod: Pod): Promise<void> {
    await removePodDirectory(this.#host.layout, pod.metadata.uid ?? '')
    await this.#writer.release(pod)
  }

  async #stopAll(): Promise<void> {
    const isStateful = (key: ObjectKey): boolean =>
      this.#pods.get(key)?.metadata.ownerReferences?.some(({ kind }) => kind === 'StatefulSet') === true
    const all = [...this.#runs].map(([text, { run }]) => ({ run, key: parseKey(text) }))
    for (const last of [false, true]) {
      const group = all.filter(({ key }) => isStateful(key) === last)
      await Promise.all(group.map(({ key, run }) => this.#stopOne(key, run)))
    }
  }

  async #stopOne(key: ObjectKey, run: PodRun): Promise<void> {
    await run.stop()
    await this.#writer
      .writeStatus(key, run)
      .catch(error => this.#logger.debug({ err: error }, 'the last status of a pod could not be written'))
  }
}

/** Resolves `started` when `seen` was called with all of these names. */
function untilAllSeen(names: string[]): { started: Promise<void>; seen: (name: string) => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const unseen = new Set(names)
  if (unseen.size === 0) resolve()
  const seen = (name: string): void => {
    unseen.delete(name)
    if (unseen.size === 0) resolve()
  }
  return { started: promise, seen }
}
