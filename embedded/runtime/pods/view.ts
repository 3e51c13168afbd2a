/** The view of a running pod and its containers, and its conversion to a pod status. Pure. */
import type { Pod } from '../../../cluster/index.ts'
import { timestamp } from '../../../values/time.ts'

export type Terminated = {
  exitCode: number
  signal: number | undefined
  /** Completed, Error, StartError, Unknown. */
  reason: string
  message: string | undefined
  startedAt: number
  finishedAt: number
}

type ContainerState =
  | { kind: 'waiting'; reason: string; message?: string | undefined }
  | { kind: 'running'; startedAt: number }
  | ({ kind: 'terminated' } & Terminated)

export type ContainerView = {
  name: string
  image: string
  state: ContainerState
  /** How the container ended last time, if it runs or waits again. */
  last: Terminated | undefined
  restarts: number
  started: boolean
  ready: boolean
}

export type PodView = {
  ip: string | undefined
  startedAt: number
  init: ContainerView[]
  main: ContainerView[]
  /** Why no container can be started yet. */
  blocked: { reason: string; message: string } | undefined
  /** How the pod ended. */
  outcome: 'Succeeded' | 'Failed' | undefined
}

type PodStatus = NonNullable<Pod['status']>
type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number]
type PodCondition = NonNullable<PodStatus['conditions']>[number]

const terminatedOf = (state: Terminated) => ({
  exitCode: state.exitCode,
  ...(state.signal !== undefined && { signal: state.signal }),
  reason: state.reason,
  ...(state.message !== undefined && { message: state.message }),
  startedAt: timestamp(state.startedAt),
  finishedAt: timestamp(state.finishedAt),
})

function stateOf(state: ContainerState): NonNullable<ContainerStatus['state']> {
  if (state.kind === 'running') return { running: { startedAt: timestamp(state.startedAt) } }
  if (state.kind === 'terminated') return { terminated: terminatedOf(state) }
  return { waiting: { reason: state.reason, ...(state.message !== undefined && { message: state.message }) } }
}

const containerStatus = (view: ContainerView): ContainerStatus => ({
  name: view.name,
  image: view.image,
  imageID: '',
  restartCount: view.restarts,
  ready: view.ready,
  started: view.started,
  state: stateOf(view.state),
  ...(view.last !== undefined && { lastState: { terminated: terminatedOf(view.last) } }),
})

/** Whether an init container has completed. */
export const hasCompleted = (view: ContainerView): boolean =>
  view.state.kind === 'terminated' && view.state.exitCode === 0

export const isPodReady = (view: PodView): boolean => view.outcome === undefined && view.main.every(main => main.ready)

function phaseOf(view: PodView): string {
  if (view.outcome !== undefined) return view.outcome
  const begun = (main: ContainerView) => main.state.kind !== 'waiting' || main.last !== undefined
  return view.init.every(hasCompleted) && view.main.some(begun) ? 'Running' : 'Pending'
}

/** A pod's status, based on the previous status. A condition keeps the time of its last change. */
export function podStatus(view: PodView, previous: PodStatus | undefined, now: number): PodStatus {
  const condition = (type: string, isTrue: boolean, because?: { reason: string; message?: string }): PodCondition => {
    const status = isTrue ? 'True' : 'False'
    const before = previous?.conditions?.find(candidate => candidate.type === type)
    const changed = before?.status !== status || before.lastTransitionTime === undefined
    return { type, status, lastTransitionTime: changed ? timestamp(now) : before.lastTransitionTime, ...because }
  }
  const unready = view.main.filter(main => !main.ready).map(main => main.name)
  const ready = unready.length === 0 && view.outcome === undefined
  const because =
    view.outcome === 'Succeeded'
      ? { reason: 'PodCompleted' }
      : { reason: 'ContainersNotReady', message: `containers with unready status: [${unready.join(' ')}]` }
  const initialised = view.init.every(hasCompleted)
  const incomplete = view.init.filter(init => !hasCompleted(init)).map(init => init.name)
  return {
    phase: phaseOf(view),
    conditions: [
      condition('PodScheduled', true),
      condition(
        'Initialized',
        initialised,
        initialised
          ? undefined
          : {
              reason: 'ContainersNotInitialized',
              message: `containers with incomplete status: [${incomplete.join(' ')}]`,
            },
      ),
      condition('ContainersReady', ready, ready ? undefined : because),
      condition('Ready', ready, ready ? undefined : because),
    ],
    ...(view.blocked !== undefined && { message: view.blocked.message, reason: view.blocked.reason }),
    ...(view.ip !== undefined && { hostIP: view.ip, podIP: view.ip, podIPs: [{ ip: view.ip }] }),
    startTime: previous?.startTime ?? timestamp(view.startedAt),
    ...(view.init.length > 0 && { initContainerStatuses: view.init.map(containerStatus) }),
    containerStatuses: view.main.map(containerStatus),
  }
}

/** The initial view of a container. It continues the view of an earlier run of the runtime. */
export function initialView(name: string, image: string, earlier: ContainerStatus | undefined): ContainerView {
  const ran = earlier?.state?.running ?? earlier?.state?.terminated
  const ended = earlier?.state?.terminated ?? (ran === undefined ? earlier?.lastState?.terminated : undefined)
  const startedAt = Date.parse((ended ?? ran)?.startedAt ?? '') || 0
  const last: Terminated | undefined = (ended ?? ran) && {
    // The kubelet's values for a lost container.
    exitCode: ended?.exitCode ?? 255,
    signal: ended?.signal,
    reason: ended?.reason ?? 'Unknown',
    message: ended?.message,
    startedAt,
    finishedAt: Date.parse(ended?.finishedAt ?? '') || startedAt,
  }
  return {
    name,
    image,
    state: { kind: 'waiting', reason: 'ContainerCreating' },
    last,
    restarts: (earlier?.restartCount ?? 0) + (ran === undefined ? 0 : 1),
    started: false,
    ready: false,
  }
}
