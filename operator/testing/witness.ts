/**
 * Watches one database beside the operator, and records violated invariants:
 *
 * - an endpoint that is open too early or for too many addresses;
 * - a password that changed or was lost;
 * - a changed timestamp of a branch;
 * - a pod of a size for which its volume is too small;
 * - a Task that ended twice or too early;
 * - a changed record of the volume.
 */
import type { Cluster, Secret, StatefulSet } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { awaitsImport, canonicalJson, childNames, type ManagedDatabase, type Task } from '../../crds/index.ts'
import { readRoute } from '../../routes/route.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import { sizeAnnotation, volumeAnnotation } from '../member/pod/stateful-set.ts'
import { conditionOf } from '../objects/conditions.ts'
import { hasEnded } from '../owner/operation.ts'
import { silent, testNamespace } from './installation.ts'
import type { Scenario, Subject } from './scenarios/scenario.ts'
import { witnessServices } from './service-witness.ts'

type Witness = { readonly complaints: string[]; stop(): Promise<void> }

export async function startWitness(
  cluster: Cluster,
  scenario: Pick<Scenario, 'rules' | 'mayFail' | 'isEndangered' | 'rotates' | 'isRestored'>,
  subject: Subject,
  /** Whether the database's roles have their passwords. */
  isPrepared: () => boolean,
  /** Whether the password that Postgres accepts for a role is in the Secret. */
  isKnown: (secret: Secret, role: DatabaseRole) => boolean = () => true,
): Promise<Witness> {
  const complaints: string[] = []
  const follow = { namespace: testNamespace, logger: silent }
  const databases = createInformer(cluster, 'ManagedDatabase', follow)
  const tasks = createInformer(cluster, 'Task', follow)
  const secrets = createInformer(cluster, 'Secret', follow)
  const routes = createInformer(cluster, 'ConfigMap', { logger: silent })
  const pods = createInformer(cluster, 'Pod', follow)
  const claims = createInformer(cluster, 'PersistentVolumeClaim', follow)
  const branches = createInformer(cluster, 'Branch', follow)
  const statefulSets = createInformer(cluster, 'StatefulSet', follow)
  let volume: string | undefined
  let incarnation: number | undefined
  let passwords: string | undefined
  let last: ManagedDatabase | undefined
  const ended = new Map<string, string>()

  databases.onChange(({ type, object }) => {
    if (object.metadata.name !== subject.name) return
    last = type === 'deleted' ? undefined : object
    const { status } = object
    if (status?.phase === 'failed' || (status?.phase === 'degraded' && !scenario.isEndangered))
      complaints.push(`it was ${status.phase}: ${conditionOf(status, 'Ready')?.message}`)
    const { systemIdentifier, claim } = status?.volume ?? {}
    const record = status?.volume && canonicalJson(scenario.isEndangered ? { systemIdentifier, claim } : status.volume)
    // If the claims' cache lags, the record gets the PersistentVolume's name later.
    const isCompleted = status?.volume && volume === canonicalJson({ ...status.volume, volumeName: undefined })
    if (isCompleted) volume = record
    const isNext = scenario.isRestored && status?.incarnation === 2 && incarnation === 1
    if (volume !== undefined && record !== volume && !isNext)
      complaints.push(`the record of the volume became ${record}`)
    if (isNext && record === volume) complaints.push('the status reported another incarnation on the same volume')
    if (volume === undefined || isNext) volume = record
    incarnation = status?.incarnation
  })
  const onTask = (task: Task) => {
    if (task.spec.subject.name !== subject.name || task.status?.finishedAt === undefined) return
    const text = canonicalJson(task.status)
    const before = ended.get(task.metadata.name)
    if (before !== undefined && before !== text) complaints.push(`${task.metadata.name} changed after its end`)
    ended.set(task.metadata.name, text)
    if (task.status.phase === 'failed' && !scenario.mayFail)
      complaints.push(`${task.spec.name} failed: ${task.status.error}`)
    const runs = last?.status?.operation
    const isCurrent = runs !== undefined && childNames.task(runs.taskId) === task.metadata.name
    if (before === undefined && isCurrent && !hasEnded(last?.status))
      complaints.push(`${task.spec.name} ended too early`)
  }
  tasks.onChange(({ object }) => onTask(object))
  const exists = () => last !== undefined && last.metadata.deletionTimestamp === undefined
  const claimNameOf = (set: StatefulSet) =>
    set.spec?.template.spec?.volumes?.find(({ persistentVolumeClaim }) => persistentVolumeClaim)?.persistentVolumeClaim
      ?.claimName
  statefulSets.onChange(({ type, object }) => {
    if (type === 'deleted' || object.spec?.replicas === 0) return
    const rivals = statefulSets
      .list()
      .filter(set => set.metadata.name !== object.metadata.name && set.spec?.replicas !== 0)
    if (rivals.some(set => claimNameOf(set) === claimNameOf(object)))
      complaints.push(`two StatefulSets run on the claim ${claimNameOf(object)}`)
  })
  claims.onChange(({ object, previous }) => {
    const { uid, deletionTimestamp } = object.metadata
    const isRequested = deletionTimestamp !== undefined && previous?.metadata.deletionTimestamp === undefined
    if (isRequested && exists() && !scenario.isEndangered && uid === last?.status?.volume?.uid)
      complaints.push('the recorded claim was deleted')
  })
  secrets.onChange(({ type, object }) => {
    if (type === 'deleted' && object.metadata.name === childNames.credentials(subject.id) && exists())
      complaints.push('the passwords were deleted')
    if (type === 'deleted' || object.metadata.name !== childNames.credentials(subject.id)) return
    const { rotates } = scenario
    if (rotates !== undefined && isPrepared() && !isKnown(object, rotates)) complaints.push('a password was lost')
    const retained = Object.entries(object.data ?? {}).filter(([field]) => field.split('.')[0] !== rotates)
    const text = canonicalJson([object.metadata.uid, Object.fromEntries(retained)])
    if (passwords !== undefined && text !== passwords) complaints.push('a password changed')
    passwords = text
  })
  routes.onChange(({ type, object }) => {
    const { route } = readRoute(object)
    if (type === 'deleted' || route === undefined || route.rules.length === 0) return
    if (last !== undefined && awaitsImport(last)) complaints.push('the endpoint was open before the import had ended')
    if (!isPrepared()) complaints.push('the endpoint was open before the roles existed')
    for (const rule of route.rules)
      if (!scenario.rules.includes(rule)) complaints.push(`the endpoint was open to ${rule}`)
  })
  pods.onChange(({ type, object }) => {
    const of = (pod: typeof object) => pod.metadata.annotations?.[volumeAnnotation]
    // Pods of services have no volume.
    if (of(object) === undefined) return
    const others = pods.list().filter(pod => pod.metadata.name !== object.metadata.name && of(pod) === of(object))
    if (type === 'set' && others.length > 0) complaints.push(`two pods were created for the volume ${of(object)}`)
    if (type === 'deleted' || object.metadata.annotations?.[sizeAnnotation] !== 'large-v1') return
    const capacities = claims.list().map(claim => claim.status?.capacity?.storage)
    if (!capacities.includes('2Gi')) complaints.push(`a pod of the larger size ran on a volume of ${capacities}`)
  })
  branches.onChange(({ object, previous }) => {
    const [before, after] = [previous?.status, object.status]
    if (before?.connectableAt !== undefined && before.connectableAt !== after?.connectableAt)
      complaints.push(`the timestamp of ${object.metadata.name} changed`)
    const isSame = (one: unknown, other: unknown) => canonicalJson(one ?? null) === canonicalJson(other ?? null)
    // A move changes the source, and restores it if the move fails.
    const isMove = isSame(before?.source, after?.move?.previous?.source)
    const isReturn = after?.move?.error !== undefined && isSame(after.source, before?.move?.previous?.source)
    if (before?.source !== undefined && !isSame(before.source, after?.source) && !isMove && !isReturn)
      complaints.push(`another copy was taken for ${object.metadata.name}`)
    if (after?.phase === 'failed' && !scenario.mayFail)
      complaints.push(`a branch failed: ${conditionOf(after, 'Ready')?.message}`)
  })
  const ofServices = await witnessServices(cluster, complaint => complaints.push(complaint))
  const informers = [databases, tasks, secrets, routes, claims, pods, branches, statefulSets]
  await Promise.all(informers.map(informer => informer.start()))
  return {
    complaints,
    stop: async () => {
      await Promise.all(informers.map(informer => informer.stop()))
      await ofServices.stop()
    },
  }
}
