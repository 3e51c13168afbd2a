/**
 * Watches one database from beside the operator and remembers whatever should never have been so: an endpoint open too
 * early or too wide, a password that changed, a pod of a size that its volume had not, a Task that ended twice or too early, a record of the volume rewritten.
 */
// @ts-nocheck

import type { Cluster } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { canonicalJson, childNames, type ManagedDatabase, type Task } from '../../crds/index.ts'
import { readRoute } from '../../routes/route.ts'
import { hasEnded } from '../managed-database/plan/operation.ts'
import { conditionOf } from '../objects/conditions.ts'
import { sizeAnnotation } from '../workload/children/stateful-set.ts'
import { silent, testNamespace } from './installation.ts'
import type { Scenario, Subject } from './scenarios.ts'

type Witness = { readonly complaints: string[]; stop(): Promise<void> }

export async function startWitness(
  cluster: Cluster,
  scenario: Pick<Scenario, 'rules' | 'mayFail' | 'isEndangered'>,
  subject: Subject,
  /** Whether the database's roles have their passwords. */
  isPrepared: () => boolean,
): Promise<Witness> {
  const complaints: string[] = []
  const follow = { namespace: testNamespace, logger: silent }
  const databases = createInformer(cluster, 'ManagedDatabase', follow)
  const tasks = createInformer(cluster, 'Task', follow)
  const secrets = createInformer(cluster, 'Secret', follow)
  const routes = createInformer(cluster, 'ConfigMap', { logger: silent })
  const pods = createInformer(cluster, 'Pod', follow)
  const claims = createInformer(cluster, 'PersistentVolumeClaim', follow)
  let volume: string | undefined
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
    if (volume !== undefined && record !== volume) complaints.push(`the record of the volume became ${record}`)
    volume ??= record
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
  secrets.onChange(({ type, object }) => {
    if (type === 'deleted' || object.metadata.name !== childNames.credentials(subject.id)) return
    const text = canonicalJson([object.metadata.uid, object.data])
    if (passwords !== undefined && text !== passwords) complaints.push('a password changed')
    passwords = text
  })
  routes.onChange(({ type, object }) => {
    const { route } = readRoute(object)
    if (type === 'deleted' || route?.databaseId !== subject.id || route.rules.length === 0) return
    if (!isPrepared()) complaints.push('the endpoint was open before the roles were there')
    for (const rule of route.rules) if (!scenario.rules.includes(rule)) complaints.push(`it was open to ${rule}`)
  })
  pods.onChange(({ type, object }) => {
    if (type === 'deleted' || object.metadata.annotations?.[sizeAnnotation] !== 'large-v1') return
    const capacities = claims.list().map(claim => claim.status?.capacity?.storage)
    if (!capacities.includes('2Gi')) complaints.push(`a pod of the larger size stood on ${capacities}`)
  })
  const informers = [databases, tasks, secrets, routes, claims, pods]
  await Promise.all(informers.map(informer => informer.start()))
  return {
    complaints,
    stop: async () => {
      await Promise.all(informers.map(informer => informer.stop()))
    },
  }
}
