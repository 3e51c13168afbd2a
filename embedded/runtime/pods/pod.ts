/**
 * One pod's life on this machine: its address, its volumes, its init containers one after the other, its containers side
 * by side, its end. It holds the pod's view; what the cluster is told of it is `kubelet.ts`'s affair.
 */
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Pod } from '../../../cluster/index.ts'
import { type Layout, makeOwned } from '../directories.ts'
import { errorCode, messageOf, RuntimeError } from '../errors.ts'
import type { ImageResolver, ResolvedImage } from '../images/resolver.ts'
import { openContainerLog } from '../logs/write.ts'
import type { AddressPool } from '../network/addresses.ts'
import type { VolumeUse } from '../volumes/use.ts'
import type { BackoffLimits } from './backoff.ts'
import { type ContainerOptions, type Preparation, superviseContainer } from './container.ts'
import { type Container, environmentOf, type PodSpec } from './environment.ts'
import { expandReferences, pathTranslator } from './expansion.ts'
import { type ClaimVolume, type Mounts, mountVolumes, pathMappings } from './mounts.ts'
import { type ProbeTiming, pause } from './probing.ts'
import { type References, referencesOf } from './references.ts'
import type { SharedProbes } from './shared-probe.ts'
import { type ContainerView, hasCompleted, initialView, type PodView } from './view.ts'

/** What all pods have from the runtime. */
export type PodHost = {
  layout: Layout
  addresses: AddressPool
  images: ImageResolver
  use: VolumeUse
  referencesIn(namespace: string): References
  findClaim(namespace: string, name: string): ClaimVolume
  /** Tells this runtime's processes from all others. */
  runtimeId: string
  warn(pod: Pod, reason: string, message: string): void
  backoff: BackoffLimits
  probeTiming: ProbeTiming
  sharedProbes: SharedProbes
  logger: Logger
  now: () => number
}

export type PodRun = {
  readonly uid: string
  readonly view: PodView
  /** Secrets and ConfigMaps that it names, by `referenceName`. */
  readonly references: ReadonlySet<string>
  /** Something that the pod may wait for has changed. */
  poke(): void
  /** A Secret or ConfigMap that it names has changed: its files follow. */
  refresh(): void
  /** Ends the pod, with the grace of its spec (a `Cluster` cannot ask for another); resolves when no process of it is left and its volumes are given up. */
  stop(): Promise<void>
}

export const runtimeMarker = 'ESPALIER_RUNTIME_ID'
const containerMarker = 'ESPALIER_RUNTIME_CONTAINER'
const defaultGraceSeconds = 30
const mountRetryMs = 30_000

/** Starts a pod. `changed` is called whenever its view has changed. */
export function startPod(host: PodHost, pod: Pod, changed: () => void): PodRun {
  const uid = pod.metadata.uid ?? ''
  const spec: PodSpec = pod.spec ?? { containers: [] }
  const stopping = new AbortController()
  const graceSeconds = spec.terminationGracePeriodSeconds ?? defaultGraceSeconds
  let poked = Promise.withResolvers<void>()
  let mounts: Mounts | undefined

  const viewsOf = (containers: Container[] | undefined, statuses: ContainerStatuses): ContainerView[] =>
    (containers ?? []).map(({ name, image }) =>
      initialView(
        name,
        image ?? '',
        statuses?.find(status => status.name === name),
      ),
    )
  const view: PodView = {
    ip: undefined,
    startedAt: host.now(),
    init: viewsOf(spec.initContainers, undefined),
    main: viewsOf(spec.containers, pod.status?.containerStatuses),
    blocked: undefined,
    outcome: undefined,
  }

  async function live(ip: string): Promise<void> {
    mounts = await mountUntilPossible(ip)
    if (mounts === undefined) return
    for (const [index, container] of (spec.initContainers ?? []).entries()) {
      const state = view.init[index]
      if (state === undefined || stopping.signal.aborted) return
      await run(container, state, ip, mounts, spec.restartPolicy === 'Never' ? 'Never' : 'OnFailure')
      if (stopping.signal.aborted) return
      if (!hasCompleted(state)) {
        view.outcome = 'Failed'
        return
      }
    }
    const running = mounts
    await Promise.all(
      spec.containers.map((container, index) => {
        const state = view.main[index]
        return state && run(container, state, ip, running, spec.restartPolicy ?? 'Always')
      }),
    )
    if (!stopping.signal.aborted) view.outcome = view.main.every(hasCompleted) ? 'Succeeded' : 'Failed'
  }

  async function mountUntilPossible(podIp: string): Promise<Mounts | undefined> {
    const { layout, use, findClaim } = host
    const references = host.referencesIn(pod.metadata.namespace ?? '')
    while (!stopping.signal.aborted) {
      const wake = new AbortController()
      void poked.promise.then(() => wake.abort())
      try {
        const mounted = mountVolumes({ pod, podIp, layout, use, findClaim, references })
        makeOwned(layout, homeOf(layout, uid))
        view.blocked = undefined
        return mounted
      } catch (error) {
        const message = messageOf(error)
        if (view.blocked?.message !== message) host.warn(pod, 'FailedMount', message)
        view.blocked = { reason: 'FailedMount', message }
        changed()
      }
      await pause(mountRetryMs, AbortSignal.any([stopping.signal, wake.signal]))
    }
    return undefined
  }

  async function run(
    container: Container,
    state: ContainerView,
    podIp: string,
    mounted: Mounts,
    policy: string,
  ): Promise<void> {
    const logDirectory = host.layout.log(pod.metadata.namespace ?? '', pod.metadata.name)
    const log = openContainerLog(logDirectory, container.name)
    const options: ContainerOptions = {
      container,
      view: state,
      changed,
      podIp,
      prepare: () => prepare(host, pod, container, podIp, mounted),
      nextPoke: () => poked.promise,
      shouldRestart: exitCode => policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0),
      graceMs: () => graceSeconds * 1000,
      volumes: mounted.claims,
      exclusiveDirectories: mounted.exclusiveDirectories,
      marker: `${containerMarker}=${containerId(host, uid, container)}`,
      terminationFile: terminationFile(host.layout, uid, container),
      log,
      logDirectory,
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
    try {
      await superviseContainer(options, stopping.signal)
    } finally {
      log.close()
    }
  }

  const life = (async () => {
    let ip: string | undefined
    try {
      ip = host.addresses.allocate()
      view.ip = ip
      changed()
      await live(ip)
    } catch (error) {
      host.logger.error(
        { err: error, pod: pod.metadata.name, namespace: pod.metadata.namespace },
        'running a pod failed',
      )
      view.outcome = 'Failed'
      view.blocked = { reason: 'RuntimeError', message: messageOf(error) }
    } finally {
      if (ip !== undefined) host.addresses.release(ip)
      for (const volume of mounts?.claims ?? []) host.use.release(volume, uid)
      changed()
    }
  })()

  const poke = () => {
    poked.resolve()
    poked = Promise.withResolvers<void>()
  }

  return {
    uid,
    view,
    references: referencesOf(spec),
    poke,
    refresh() {
      poke()
      try {
        mounts?.refresh()
      } catch (error) {
        host.warn(pod, 'FailedMount', messageOf(error)) // the files stay as they were
      }
    },
    async stop() {
      stopping.abort()
      await life
    },
  }
}

type ContainerStatuses = NonNullable<NonNullable<Pod['status']>['containerStatuses']> | undefined

const containerId = (host: PodHost, podUid: string, container: Container): string =>
  `${host.runtimeId}/${podUid}/${container.name}`

/** The one directory of a pod that its containers may write to besides their volumes: HOME, TMPDIR, working directory. */
const homeOf = (layout: Layout, uid: string): string => join(layout.pod(uid), 'home')
const terminationFile = (layout: Layout, uid: string, container: Container): string =>
  join(homeOf(layout, uid), `.termination-${container.name}`)

/**
 * Removes what a pod had on disk but its logs. It is first put out of the reach of other workloads, so that none can
 * lead the removal astray.
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

const defaultTerminationPath = '/dev/termination-log'

async function prepare(
  host: PodHost,
  pod: Pod,
  container: Container,
  podIp: string,
  mounts: Mounts,
): Promise<Preparation> {
  const image = await host.images(container.image ?? '', mounts.claimDirectories)
  const uid = pod.metadata.uid ?? ''
  const home = homeOf(host.layout, uid)
  const translate = pathTranslator([
    ...pathMappings(container, mounts.directories),
    {
      mountPath: container.terminationMessagePath ?? defaultTerminationPath,
      directory: terminationFile(host.layout, uid, container),
    },
  ])
  const environment = environmentOf({
    pod,
    container,
    podIp,
    references: host.referencesIn(pod.metadata.namespace ?? ''),
    image,
    translate,
    home,
    markers: {
      [runtimeMarker]: host.runtimeId,
      [containerMarker]: containerId(host, uid, container),
    },
  })
  const [word, ...rest] = [...(container.command ?? []), ...(container.args ?? [])].map(argument =>
    expandReferences(translate(argument), environment),
  )
  if (word === undefined || container.command === undefined) {
    throw new RuntimeError('Unsupported', `container "${container.name}" must name its command: images have none here`)
  }
  const [program = word, ...leading] = image.commands[word] ?? [word]
  const named = container.command.join(' ')
  const hosted = image.hosted && Object.hasOwn(image.hosted, named) ? image.hosted[named] : undefined
  return {
    command: [program, ...leading, ...rest],
    ...(hosted ? { hosted: { start: hosted, args: rest.slice(container.command.length - 1) } } : {}),
    environment,
    workingDirectory: container.workingDir === undefined ? home : translate(container.workingDir),
    stopSignal: stopSignalOf(container, image),
    translate,
  }
}

/** `lifecycle.stopSignal` names any signal of Linux; where it says nothing that we know, the image does. */
function stopSignalOf(container: Container, image: ResolvedImage): NodeJS.Signals {
  const known: NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGKILL']
  return known.find(name => name === container.lifecycle?.stopSignal) ?? image.stopSignal ?? 'SIGTERM'
}
