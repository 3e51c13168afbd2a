/** The scenarios' database requests, in the API's format, and when they are done. */
import type { Cluster } from '../../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  childNames,
  desiredHash,
  desiredStateOf,
  labels,
  type ManagedDatabase,
  type OperationName,
  renderOperation,
} from '../../../crds/index.ts'
import { databaseDraft, editSpec, testNamespace } from '../installation.ts'
import type { Subject } from './scenario.ts'

export const key = ({ name }: Subject) => ({ namespace: testNamespace, name })
export const narrow = { rules: [{ cidr: '198.51.100.0/24' }] }
export const wide = { rules: [{ cidr: '198.51.100.0/24' }, { cidr: '203.0.113.7' }] }

/** Creates the Task, like the API after its write. */
export async function createTask(
  cluster: Cluster,
  { name, id, taskId }: Subject,
  operation: OperationName,
): Promise<void> {
  await cluster.create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: {
      name: childNames.task(taskId),
      namespace: testNamespace,
      labels: { [labels.id]: taskId, [labels.subject]: id },
    },
    spec: { name: operation, subject: { kind: 'database', id, name }, request: { asked: true } },
  })
}

export const hasEnded = async (cluster: Cluster, { taskId }: Subject): Promise<boolean> => {
  const task = await cluster.get('Task', { namespace: testNamespace, name: childNames.task(taskId) })
  return task?.status?.finishedAt !== undefined
}

export const allTasksEnded = async (cluster: Cluster): Promise<boolean> =>
  (await cluster.list('Task', { namespace: testNamespace })).items.every(task => task.status?.finishedAt !== undefined)

export const toLarge = (spec: ManagedDatabase['spec']) => ({ ...spec, size: { name: 'large', version: 1 } })

/** The database is reconciled. Its operation is no longer in the status, and its Task has ended. */
export const reconciledAs =
  (phase: string, size = 'small') =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const database = await cluster.get('ManagedDatabase', key(subject))
    const { status } = database ?? {}
    return (
      database !== undefined &&
      status?.phase === phase &&
      status.size?.name === size &&
      status.operation === undefined &&
      status.appliedHash === desiredHash(desiredStateOf(database)) &&
      (await hasEnded(cluster, subject))
    )
  }

export const annotationOf = (subject: Subject, name: OperationName, spec: ManagedDatabase['spec']) => ({
  [annotations.operation]: renderOperation({ taskId: subject.taskId, name, hash: desiredHash(spec) }),
})

/** Creates a database like the API. */
export async function createDatabase(
  cluster: Cluster,
  subject: Subject,
  spec: Partial<ManagedDatabase['spec']>,
): Promise<void> {
  const draft = databaseDraft(subject.name, spec, subject.id)
  const { ipAllowlist = { rules: [] }, suspended = false, services = [] } = spec
  const hash = desiredHash({ services, ipAllowlist, size: { name: 'small', version: 1 }, suspended })
  const operation = renderOperation({ taskId: subject.taskId, name: 'create-managed', hash })
  const metadata = { ...draft.metadata, annotations: { [annotations.operation]: operation } }
  await cluster.create('ManagedDatabase', { ...draft, metadata })
}

/** Changes a database like the API: spec and annotation in one write. */
export async function change(
  cluster: Cluster,
  subject: Subject,
  name: OperationName,
  edit: (spec: ManagedDatabase['spec']) => ManagedDatabase['spec'],
): Promise<void> {
  const database = await cluster.get('ManagedDatabase', key(subject))
  if (database === undefined) throw new Error('there is no database to change')
  await editSpec(cluster, subject.name, edit, annotationOf(subject, name, edit(database.spec)))
}

/** All volumes in the cluster, which has only the swept database. */
export const volumesOf = async (cluster: Cluster) => (await cluster.list('PersistentVolume')).items
