/** The facts about a database's pod that the plan reads. */
import type { Pod } from '../../../cluster/index.ts'
import { isMemberOf, labels, parseMemberName } from '../../../crds/index.ts'
import { type RefusalReason, reasonOfExitCode } from '../../../instance/refusal.ts'
import { isRecord } from '../../../values/record.ts'
import { shortened } from '../../../values/text.ts'
import type { Caches } from '../../caches.ts'
import type { Component } from '../../objects/ownership.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import { editedImages } from './image-edits.ts'
import {
  imageAnnotation,
  maintenanceAnnotation,
  postgresContainer,
  prepareContainer,
  type RestartAnnotations,
  restartAnnotation,
  sizeAnnotation,
  templateAnnotation,
  volumeAnnotation,
} from './stateful-set.ts'
import { walProbeAnnotation } from './wal-probe.ts'

/** Kubernetes' label with the revision of the pod's StatefulSet. */
const revisionLabel = 'controller-revision-hash'

/**
 * Whether a pod with a database's label runs the database's Postgres. Pods of services also have that label, but with
 * another component label. A pod whose component label was removed or changed is recognised by its name.
 */
const isPostgres = ({ metadata: { name, labels: objectLabels } }: Pod, id: string): boolean =>
  objectLabels?.[labels.component] === ('postgres' satisfies Component) || isMemberOf(parseMemberName('pod', name), id)

/** The Postgres pods of a database or branch. */
export const podsOf = (caches: Pick<Caches, 'pods'>, id: string, namespace: string | undefined): Pod[] =>
  caches.pods.byIndex('database', id).filter(pod => pod.metadata.namespace === namespace && isPostgres(pod, id))

export type PodFacts = {
  name: string
  uid: string
  node: string | undefined
  /** The address of a running Postgres container; absent while there is none. */
  address: string | undefined
  ready: boolean
  /** The node last reported the container as ready. Later the cluster marked the pod as not ready (node.ts). */
  isNodeSilent: boolean
  /** The pod has a probe that checks whether WAL can be written. A pod of an older operator has no such probe. */
  probesWal: boolean
  /** The WAL probe reports that a write has not ended, although Postgres was ready before. */
  writeHangs: boolean
  terminating: boolean
  /** The size with which the pod was started. */
  size: string | undefined
  /** The uid of the claim for which the pod was created. */
  volume: string | undefined
  /** The digest of the template from which the pod was created. */
  template: string | undefined
  /** The image as the installation named it when the pod was created; absent for an older operator's pod. */
  image: string | undefined
  /** Containers whose image another manager changed in the pod itself. */
  editedImages: string[]
  /**
   * The revision of the StatefulSet from which the pod was created; absent in clusters without revisions, such as the
   * embedded one.
   */
  revision: string | undefined
  /** The image that Postgres runs, as the node reports it. */
  imageId: string | undefined
  /** The annotations of the pod's last requested restart, and of its last restart in a maintenance window. */
  restartAnnotations: RestartAnnotations
  /** Changes at each start of Postgres: facts from an earlier run are outdated. */
  run: string
  /** When the pod was created, in ms. */
  createdAt: number | undefined
  /** When the Postgres container was started, in ms. */
  startedAt: number | undefined
  problem: PodProblem | undefined
  /**
   * The pod will not run before its StatefulSet, or another object that it depends on, is corrected. False after a
   * crash from which the pod can recover.
   */
  isStuck: boolean
}

/** Why a pod does not run, as Kubernetes or `espalier instance` reports it. */
type PodProblem = {
  reason: string
  message: string
  refusal: RefusalReason | undefined
  diskFull: boolean
  /** When the failed container ended, in ms. */
  endedAt?: number | undefined
}

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number]

const waitingIsProblem = new Set([
  'CrashLoopBackOff',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
])

/**
 * In these lines Postgres reports that its log continues on the volume instead of in the container's log (start.ts).
 */
const aboutLog = /(?:LOG: {2}(?:redirecting|ending) log output|HINT: {2}Future log output) /

/**
 * Finds the line with the reason why a process ended. Postgres's last line and messages about refused clients can
 * follow that line. Removes the prefix before PANIC or FATAL, which differs at each start.
 */
function reasonLine(text: string): string {
  const lines = text
    .trim()
    .split('\n')
    .filter(line => !aboutLog.test(line))
  const line =
    lines.findLast(line => line.includes('PANIC:  ')) ??
    lines.findLast(line => line.includes('FATAL:  ') && !line.includes('[user=')) ??
    lines.at(-1) ??
    ''
  return line.replace(/^.*?(?=(PANIC|FATAL): {2})/, '')
}

/**
 * The message of an ended container. `espalier instance` writes a JSON object with `message`. For other containers, the
 * message is the end of the log.
 */
export function readMessage(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text)
    if (isRecord(parsed) && 'message' in parsed) return String(parsed.message)
  } catch {}
  return reasonLine(text)
}

/**
 * Returns how a failed container ended: the current failure, or the last one if the container waits for its next start.
 */
function failureOf(
  status: ContainerStatus,
): { exitCode: number; text: string; endedAt: number | undefined } | undefined {
  const ended = status.state?.terminated ?? (status.state?.waiting ? status.lastState?.terminated : undefined)
  if (ended === undefined || ended.exitCode === 0) return undefined
  const endedAt = ended.finishedAt === undefined ? undefined : Date.parse(ended.finishedAt)
  return { exitCode: ended.exitCode, text: ended.message ?? '', endedAt }
}

const noSpace = /No space left on device|Disk quota exceeded/
/**
 * This line in Postgres's log (libpq/pqcomm.c) shows that another process on the machine uses the address. This occurs
 * on a machine without network namespaces.
 */
const notBound = /could not bind \w+ address "([^"]*)": Address (?:already )?in use/

function containerProblem(status: ContainerStatus): PodProblem | undefined {
  const waiting = status.state?.waiting
  const failure = failureOf(status)
  if (failure === undefined) {
    if (waiting?.reason === undefined || !waitingIsProblem.has(waiting.reason)) return undefined
    return { reason: waiting.reason, message: waiting.message ?? waiting.reason, refusal: undefined, diskFull: false }
  }
  const [, taken] = (status.name === postgresContainer && notBound.exec(failure.text)) || []
  if (taken !== undefined) return addressInUse(taken)
  const refusal = status.name === prepareContainer ? reasonOfExitCode(failure.exitCode) : undefined
  const text = readMessage(failure.text)
  return {
    reason: waiting?.reason ?? 'ContainerFailed',
    message: shortened(
      `${status.name} ended with exit code ${failure.exitCode}${text === '' ? '' : `: ${text}`}`,
      1000,
    ),
    refusal,
    diskFull: refusal === 'disk-full' || noSpace.test(failure.text),
    ...(failure.endedAt === undefined ? {} : { endedAt: failure.endedAt }),
  }
}

const addressInUse = (address: string): PodProblem => ({
  reason: 'AddressInUse',
  message: `another process listens on port ${postgresPort} of ${address}, or of every address of the machine, so Postgres cannot start`,
  refusal: undefined,
  diskFull: false,
})

function unschedulable(pod: Pod): PodProblem | undefined {
  const scheduled = pod.status?.conditions?.find(condition => condition.type === 'PodScheduled')
  if (scheduled?.status !== 'False') return undefined
  const { reason = 'Unschedulable', message = 'no node can run the pod' } = scheduled
  return { reason, message, refusal: undefined, diskFull: false }
}

/** A condition that changed within this time after Postgres's start is ignored, because the start may be its cause. */
const stabilizingMs = 15_000

/** Whether a running Postgres became not ready after its start. */
function isUnreadySince(pod: Pod, startedAt: number | undefined): boolean {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === postgresContainer)
  if (status?.started !== true || status.ready || startedAt === undefined) return false
  const condition = pod.status?.conditions?.find(({ type }) => type === 'ContainersReady' || type === 'Ready')
  return condition?.status === 'False' && Date.parse(condition.lastTransitionTime ?? '') > startedAt + stabilizingMs
}

/** After this many restarts of its container, a pod whose Postgres has failed counts as stuck. */
const passingCrashes = 3

/**
 * Postgres ran and has ended, for example because the kernel killed it at the memory limit. The kubelet starts Postgres
 * again.
 */
const isPassingCrash = (postgres: ContainerStatus | undefined): boolean =>
  postgres !== undefined && failureOf(postgres) !== undefined && postgres.restartCount < passingCrashes

export function podFacts(pod: Pod): PodFacts {
  const postgres = pod.status?.containerStatuses?.find(status => status.name === postgresContainer)
  // A problem of the agent's container is not a problem of Postgres.
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(postgres === undefined ? [] : [postgres])]
  const running = postgres?.state?.running
  const isReady = postgres?.ready === true
  const conditionStatus = (condition: string) => pod.status?.conditions?.find(({ type }) => type === condition)?.status
  // The kubelet changes both conditions at once. If the node does not respond, the cluster changes only `Ready`. If
  // Postgres is ready and both are False, another container is not ready, which does not matter here.
  const isNodeSilent = isReady && conditionStatus('Ready') === 'False' && conditionStatus('ContainersReady') !== 'False'
  const probesWal = pod.metadata.annotations?.[walProbeAnnotation] === 'true'
  const startedAt = running?.startedAt === undefined ? undefined : Date.parse(running.startedAt)
  const problem = statuses.map(containerProblem).find(found => found !== undefined) ?? unschedulable(pod)
  return {
    name: pod.metadata.name,
    uid: pod.metadata.uid ?? '',
    node: pod.spec?.nodeName,
    address: running === undefined ? undefined : pod.status?.podIP,
    ready: isReady && !isNodeSilent,
    isNodeSilent,
    probesWal,
    writeHangs: probesWal && isUnreadySince(pod, startedAt),
    terminating: pod.metadata.deletionTimestamp !== undefined,
    size: pod.metadata.annotations?.[sizeAnnotation],
    volume: pod.metadata.annotations?.[volumeAnnotation],
    template: pod.metadata.annotations?.[templateAnnotation],
    image: pod.metadata.annotations?.[imageAnnotation],
    editedImages: editedImages(pod),
    revision: pod.metadata.labels?.[revisionLabel],
    imageId: running === undefined ? undefined : postgres?.imageID,
    restartAnnotations: {
      restart: pod.metadata.annotations?.[restartAnnotation],
      maintenance: pod.metadata.annotations?.[maintenanceAnnotation],
    },
    run: [pod.metadata.uid, postgres?.containerID ?? '', postgres?.restartCount ?? 0, running?.startedAt ?? ''].join(
      '/',
    ),
    createdAt: pod.metadata.creationTimestamp === undefined ? undefined : Date.parse(pod.metadata.creationTimestamp),
    startedAt,
    problem,
    isStuck: problem !== undefined && !isPassingCrash(postgres),
  }
}
