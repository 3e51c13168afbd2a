/** What a database's pod says about itself, boiled down to what the plan decides by. */
import type { Pod } from '../../../cluster/index.ts'
import { isMemberOf, labels, parseMemberName } from '../../../crds/index.ts'
import { type RefusalReason, reasonOfExitCode } from '../../../instance/refusal.ts'
import { isRecord } from '../../../values/record.ts'
import type { Caches } from '../../caches.ts'
import type { Component } from '../../objects/ownership.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import { editedImages } from './image-edits.ts'
import {
  imageAnnotation,
  maintenanceAnnotation,
  postgresContainer,
  prepareContainer,
  type RestartMarks,
  restartAnnotation,
  sizeAnnotation,
  templateAnnotation,
  volumeAnnotation,
} from './stateful-set.ts'
import { walProbeAnnotation } from './wal-probe.ts'

/** Kubernetes' own label. */
const revisionLabel = 'controller-revision-hash'

/**
 * Whether a pod with the label of a database runs its Postgres. A service of the database has that label too, and another component. A
 * pod that lost its component label, or was given another one, is still Postgres by its name.
 */
const isPostgres = ({ metadata: { name, labels: marks } }: Pod, id: string): boolean =>
  marks?.[labels.component] === ('postgres' satisfies Component) || isMemberOf(parseMemberName('pod', name), id)

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
  /** Its container was ready when its node last said so, and the cluster no longer goes by that: see node.ts. */
  isUnheardOf: boolean
  /** Its own probe sees to it that WAL can be written; one made before there was such a probe has none. */
  probesWal: boolean
  /** That probe says, of a Postgres that was ready, that a write has not ended. */
  writeHangs: boolean
  terminating: boolean
  /** The size it was started with. */
  size: string | undefined
  /** The uid of the claim it was made for. */
  volume: string | undefined
  /** The digest of the template it was made from. */
  template: string | undefined
  /** The image as the installation named it when the pod was made; absent on one of an older operator's. */
  image: string | undefined
  /** Containers whose image somebody changed in the pod itself. */
  editedImages: string[]
  /** The revision of its StatefulSet that it was made from; absent where there are none, as on the embedded default. */
  revision: string | undefined
  /** What the node says that its Postgres runs. */
  imageId: string | undefined
  /** What asked for its last restart, and the maintenance window of its last one. */
  marks: RestartMarks
  /** Changes at each start of Postgres: facts from an earlier run are outdated. */
  run: string
  /** When the pod itself was made, in ms. */
  createdAt: number | undefined
  /** When the Postgres container was started, in ms. */
  startedAt: number | undefined
  trouble: PodTrouble | undefined
  /** It will not come to run by itself: what it was made from is to be made good, and a crash that passes is not this. */
  isStuck: boolean
}

/** Why a pod does not run, in Kubernetes' words or in those of `espalier instance`. */
type PodTrouble = {
  reason: string
  message: string
  refusal: RefusalReason | undefined
  diskFull: boolean
  /** When its container ended, in ms. */
  endedAt?: number | undefined
}

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number]

const waitingIsTrouble = new Set([
  'CrashLoopBackOff',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
])

/** By which Postgres says that its log goes to the volume: what comes next is not here (start.ts). */
const aboutLog = /(?:LOG: {2}(?:redirecting|ending) log output|HINT: {2}Future log output) /

/**
 * The line that says why a process ended: Postgres's own last word comes after it, and clients are refused in between.
 * Without what stands before the level, which is another at each start.
 */
function tellingLine(text: string): string {
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

/** The message of a container that ended: of `espalier instance` a JSON object with `message`, of others its log's end. */
export function readMessage(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text)
    if (isRecord(parsed) && 'message' in parsed) return String(parsed.message)
  } catch {}
  return tellingLine(text)
}

/** The end of a container that failed, now or before its present start. */
function failureOf(
  status: ContainerStatus,
): { exitCode: number; text: string; endedAt: number | undefined } | undefined {
  const ended = status.state?.terminated ?? (status.state?.waiting ? status.lastState?.terminated : undefined)
  if (ended === undefined || ended.exitCode === 0) return undefined
  const endedAt = ended.finishedAt === undefined ? undefined : Date.parse(ended.finishedAt)
  return { exitCode: ended.exitCode, text: ended.message ?? '', endedAt }
}

const noSpace = /No space left on device|Disk quota exceeded/
/** In Postgres's log (port/pqcomm.c), where the pod's address is not its own alone: on one machine without namespaces. */
const notBound = /could not bind \w+ address "([^"]*)": Address (?:already )?in use/

function containerTrouble(status: ContainerStatus): PodTrouble | undefined {
  const waiting = status.state?.waiting
  const failure = failureOf(status)
  if (failure === undefined) {
    if (waiting?.reason === undefined || !waitingIsTrouble.has(waiting.reason)) return undefined
    return { reason: waiting.reason, message: waiting.message ?? waiting.reason, refusal: undefined, diskFull: false }
  }
  const [, taken] = (status.name === postgresContainer && notBound.exec(failure.text)) || []
  if (taken !== undefined) return addressInUse(taken)
  const refusal = status.name === prepareContainer ? reasonOfExitCode(failure.exitCode) : undefined
  const said = readMessage(failure.text)
  return {
    reason: waiting?.reason ?? 'ContainerFailed',
    message: `${status.name} ended with exit code ${failure.exitCode}${said === '' ? '' : `: ${said}`}`.slice(0, 1000),
    refusal,
    diskFull: refusal === 'disk-full' || noSpace.test(failure.text),
    ...(failure.endedAt === undefined ? {} : { endedAt: failure.endedAt }),
  }
}

const addressInUse = (address: string): PodTrouble => ({
  reason: 'AddressInUse',
  message: `another process listens on port ${postgresPort} of ${address}, or of every address of the machine: Postgres cannot`,
  refusal: undefined,
  diskFull: false,
})

function unschedulable(pod: Pod): PodTrouble | undefined {
  const scheduled = pod.status?.conditions?.find(condition => condition.type === 'PodScheduled')
  if (scheduled?.status !== 'False') return undefined
  const { reason = 'Unschedulable', message = 'no node takes the pod' } = scheduled
  return { reason, message, refusal: undefined, diskFull: false }
}

/** How long after its start a pod may still be told not to be ready because of what was before it. */
const settlingMs = 15_000

/** Whether a Postgres that runs came to be not ready in this run, and not by its start. */
function isUnreadySince(pod: Pod, startedAt: number | undefined): boolean {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === postgresContainer)
  if (status?.started !== true || status.ready || startedAt === undefined) return false
  const condition = pod.status?.conditions?.find(({ type }) => type === 'ContainersReady' || type === 'Ready')
  return condition?.status === 'False' && Date.parse(condition.lastTransitionTime ?? '') > startedAt + settlingMs
}

/** So often in a row Postgres may end by itself, and come back from the template that it had. */
const passingCrashes = 3

/** Postgres ran, and has ended: killed for its memory, say. Its node starts it again. */
const isPassingCrash = (postgres: ContainerStatus | undefined): boolean =>
  postgres !== undefined && failureOf(postgres) !== undefined && postgres.restartCount < passingCrashes

export function podFacts(pod: Pod): PodFacts {
  const postgres = pod.status?.containerStatuses?.find(status => status.name === postgresContainer)
  // What becomes of the agent beside it is no trouble of Postgres's.
  const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(postgres === undefined ? [] : [postgres])]
  const running = postgres?.state?.running
  const isReady = postgres?.ready === true
  const says = (condition: string) => pod.status?.conditions?.find(({ type }) => type === condition)?.status
  // The kubelet changes both at once; the cluster itself this one alone, when the node says nothing any more. Containers that
  // are not ready, Postgres being so, are others, and say nothing of it.
  const isUnheardOf = isReady && says('Ready') === 'False' && says('ContainersReady') !== 'False'
  const probesWal = pod.metadata.annotations?.[walProbeAnnotation] === 'true'
  const startedAt = running?.startedAt === undefined ? undefined : Date.parse(running.startedAt)
  const trouble = statuses.map(containerTrouble).find(found => found !== undefined) ?? unschedulable(pod)
  return {
    name: pod.metadata.name,
    uid: pod.metadata.uid ?? '',
    node: pod.spec?.nodeName,
    address: running === undefined ? undefined : pod.status?.podIP,
    ready: isReady && !isUnheardOf,
    isUnheardOf,
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
    marks: {
      restart: pod.metadata.annotations?.[restartAnnotation],
      maintenance: pod.metadata.annotations?.[maintenanceAnnotation],
    },
    run: [pod.metadata.uid, postgres?.containerID ?? '', postgres?.restartCount ?? 0, running?.startedAt ?? ''].join(
      '/',
    ),
    createdAt: pod.metadata.creationTimestamp === undefined ? undefined : Date.parse(pod.metadata.creationTimestamp),
    startedAt,
    trouble,
    isStuck: trouble !== undefined && !isPassingCrash(postgres),
  }
}
