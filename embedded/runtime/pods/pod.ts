/**
 * Runs one pod on this machine. It allocates an address, mounts the volumes, runs the init containers one after another
 * and the containers concurrently, and cleans up at the end. It updates the pod's view; kubelet.ts writes the view to
 * the cluster.
 */
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pod } from '../../../cluster/index.ts'
import { type Layout, makeOwned } from '../directories.ts'
import { errorCode, messageOf } from '../errors.ts'
import { openContainerLog } from '../logs/write.ts'
import { type ContainerOptions, superviseContainer } from './container.ts'
import type { Container, PodSpec } from './environment.ts'
import { type Mounts, mountVolumes } from './mounts.ts'
import { containerMarkerVariable, homeOf, type PodHost, terminationFile } from './pod-host.ts'
import { prepare } from './preparation.ts'
import { pause } from './probing.ts'
import { referencesOf } from './references.ts'
import { type ContainerView, hasCompleted, initialView, type PodView } from './view.ts'

export type PodRun = {
  readonly uid: string
  readonly view: PodView
  /** The Secrets and ConfigMaps that the pod names, by `referenceName`. */
  readonly references: ReadonlySet<string>
  /** Retries the step that the pod waits for. */
  wake(): void
  /** Updates the pod's files after a Secret or ConfigMap that it names has changed. */
  refresh(): void
  /**
   * Stops the pod with the grace period of its spec (a `Cluster` cannot request another). Resolves when all its
   * processes have ended and its volumes are released.
   */
  stop(): Promise<void>
}

const defaultGraceSeconds = 30
const mountRetryMs = 30_000

/** Starts a pod. `changed` is called whenever its view has changed. */
export function startPod(host: PodHost, pod: Pod, changed: () => void): PodRun {
  return new RunningPod(host, pod, changed)
}

class RunningPod implements PodRun {
  readonly uid: string
  readonly view: PodView
  readonly references: ReadonlySet<string>
  readonly #host: PodHost
  readonly #pod: Pod
  readonly #spec: PodSpec
  readonly #changed: () => void
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  #woken = Promise.withResolvers<void>()
  #mounts: Mounts | undefined

  constructor(host: PodHost, pod: Pod, changed: () => void) {
    this.#host = host
    this.#pod = pod
    this.#spec = pod.spec ?? { containers: [] }
    this.#changed = changed
    this.uid = pod.metadata.uid ?? ''
    this.references = referencesOf(this.#spec)
    this.view = initialPodView(pod, host.now())
    this.#ended = this.#run()
  }

  wake(): void {
    this.#woken.resolve()
    this.#woken = Promise.withResolvers<void>()
  }

  refresh(): void {
    this.wake()
    try {
      this.#mounts?.refresh()
    } catch (error) {
      this.#host.warn(this.#pod, 'FailedMount', messageOf(error)) // the pod keeps its current files
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run(): Promise<void> {
    const { addresses, use, logger } = this.#host
    let ip: string | undefined
    try {
      ip = addresses.allocate()
      this.view.ip = ip
      this.#changed()
      await this.#runContainers(ip)
    } catch (error) {
      const { name, namespace } = this.#pod.metadata
      logger.error({ err: error, pod: name, namespace }, 'running a pod failed')
      this.view.outcome = 'Failed'
      this.view.blocked = { reason: 'RuntimeError', message: messageOf(error) }
    } finally {
      if (ip !== undefined) addresses.release(ip)
      for (const volume of this.#mounts?.claims ?? []) use.release(volume, this.uid)
      this.#changed()
    }
  }

  async #runContainers(ip: string): Promise<void> {
    const { signal } = this.#stopping
    const mounts = await this.#mountUntilPossible(ip)
    if (mounts === undefined) return
    this.#mounts = mounts
    if (!(await this.#runInitContainers(ip, mounts))) return
    const { containers, restartPolicy = 'Always' } = this.#spec
    await Promise.all(
      containers.map((container, index) => {
        const state = this.view.main[index]
        return state && this.#supervise(container, state, ip, mounts, restartPolicy)
      }),
    )
    if (!signal.aborted) this.view.outcome = this.view.main.every(hasCompleted) ? 'Succeeded' : 'Failed'
  }

  /** Returns whether all init containers have completed. */
  async #runInitContainers(ip: string, mounts: Mounts): Promise<boolean> {
    const { signal } = this.#stopping
    const { initContainers = [], restartPolicy } = this.#spec
    for (const [index, container] of initContainers.entries()) {
      const state = this.view.init[index]
      if (state === undefined || signal.aborted) return false
      await this.#supervise(container, state, ip, mounts, restartPolicy === 'Never' ? 'Never' : 'OnFailure')
      if (signal.aborted) return false
      if (hasCompleted(state)) continue
      this.view.outcome = 'Failed'
      return false
    }
    return true
  }

  /** Retries until the volumes can be mounted. Returns undefined if the pod is stopped first. */
  async #mountUntilPossible(podIp: string): Promise<Mounts | undefined> {
    const { layout, use, findClaim } = this.#host
    const pod = this.#pod
    const references = this.#host.referencesIn(pod.metadata.namespace ?? '')
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const wake = new AbortController()
      void this.#woken.promise.then(() => wake.abort())
      try {
        const mounted = mountVolumes({ pod, podIp, layout, use, findClaim, references })
        makeOwned(layout, homeOf(layout, this.uid))
        this.view.blocked = undefined
        return mounted
      } catch (error) {
        this.#reportMountFailure(messageOf(error))
      }
      await pause(mountRetryMs, AbortSignal.any([signal, wake.signal]))
    }
    return undefined
  }

  #reportMountFailure(message: string): void {
    if (this.view.blocked?.message !== message) this.#host.warn(this.#pod, 'FailedMount', message)
    this.view.blocked = { reason: 'FailedMount', message }
    this.#changed()
  }

  async #supervise(
    container: Container,
    view: ContainerView,
    podIp: string,
    mounts: Mounts,
    policy: string,
  ): Promise<void> {
    const { name, namespace = '' } = this.#pod.metadata
    const logDirectory = this.#host.layout.log(namespace, name)
    const log = openContainerLog(logDirectory, container.name)
    try {
      const options = {
        ...this.#containerOptions(container, podIp, mounts),
        ...{ view, log, logDirectory },
        shouldRestart: (exitCode: number) => policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0),
      }
      await superviseContainer(options, this.#stopping.signal)
    } finally {
      log.close()
    }
  }

  #containerOptions(
    container: Container,
    podIp: string,
    mounts: Mounts,
  ): Omit<ContainerOptions, 'view' | 'log' | 'logDirectory' | 'shouldRestart'> {
    const host = this.#host
    const pod = this.#pod
    const graceSeconds = this.#spec.terminationGracePeriodSeconds ?? defaultGraceSeconds
    return {
      container,
      changed: this.#changed,
      podIp,
      prepare: () => prepare(host, pod, container, podIp, mounts),
      nextWake: () => this.#woken.promise,
      graceMs: () => graceSeconds * 1000,
      volumes: mounts.claims,
      exclusiveDirectories: mounts.exclusiveDirectories,
      marker: containerMarkerVariable(host, this.uid, container),
      terminationFile: terminationFile(host.layout, this.uid, container),
      warn: (reason, message) => host.warn(pod, reason, message),
      use: host.use,
      records: host.layout.processes,
      owner: host.layout.owner,
      backoff: host.backoff,
      probeTiming: host.probeTiming,
      sharedProbes: host.sharedProbes,
      logger: host.logger,
      now: host.now,
    }
  }
}

type ContainerStatuses = NonNullable<NonNullable<Pod['status']>['containerStatuses']> | undefined

function initialPodView({ spec, status }: Pod, now: number): PodView {
  const viewsOf = (containers: Container[] | undefined, statuses: ContainerStatuses): ContainerView[] =>
    (containers ?? []).map(({ name, image }) =>
      initialView(
        name,
        image ?? '',
        statuses?.find(each => each.name === name),
      ),
    )
  return {
    ip: undefined,
    startedAt: now,
    init: viewsOf(spec?.initContainers, undefined),
    main: viewsOf(spec?.containers, status?.containerStatuses),
    blocked: undefined,
    outcome: undefined,
  }
}

/**
 * Deletes a pod's files, except its logs. First moves them to a directory that workloads cannot reach, so that no
 * workload can redirect the deletion with a link.
 */
export async function removePodDirectory(layout: Layout, uid: string): Promise<void> {
  const removed = join(layout.staging, `pod-${uid}`)
  try {
    await rename(layout.pod(uid), removed)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
  await rm(removed, { recursive: true, force: true })
}
