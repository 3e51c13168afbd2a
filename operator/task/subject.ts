/**
 * What a Task can be about, as the controller of Tasks sees it: a resource whose status names the operation that runs,
 * and whose condition Progressing says how that goes. A kind that has operations comes to have Tasks by a source of its own.
 */
import type { Cluster, ObjectKey } from '../../cluster/index.ts'
import {
  annotatedOperation,
  type Backup,
  type Condition,
  childNames,
  isInForce,
  labels,
  type ManagedDatabase,
  type OperationName,
  readOperation,
  type Task,
} from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { conditionOf } from '../objects/conditions.ts'

export type SubjectKind = Task['spec']['subject']['kind']

export type Subject = {
  kind: SubjectKind
  namespace: string
  name: string
  /** The API's id; undefined until it has one. */
  id: string | undefined
  tenant: string | undefined
  phase: string | undefined
  isDeleting: boolean
  /** The operation that its status names. */
  operation: { taskId: string; name: OperationName } | undefined
  progressing: Condition | undefined
  /** The Task of what was asked for last by the API. */
  askedTaskId: () => string | undefined
  /** All that is asked is in force. */
  isInForce: () => boolean
}

/** Where the subjects of one kind are found. */
export type SubjectSource = {
  kind: SubjectKind
  /** The one whose status names this Task, as far as the caches know. */
  withTask(namespace: string, taskId: string): Subject | undefined
  /** What the cluster itself has under this name. */
  live(cluster: Cluster, key: ObjectKey): Promise<Subject | undefined>
  onChange(handler: (subject: Subject, previous: Subject | undefined) => void): () => void
}

const taskPrefix = childNames.task('')

/** The subject whose status names the Task of this name, of whatever kind, as far as the caches know. */
export function subjectWithTask(
  sources: readonly SubjectSource[],
  { namespace, name }: ObjectKey,
): Subject | undefined {
  if (!name.startsWith(taskPrefix)) return undefined
  const taskId = name.slice(taskPrefix.length)
  return sources.map(source => source.withTask(namespace ?? '', taskId)).find(found => found !== undefined)
}

export function subjectOf(database: ManagedDatabase): Subject {
  const { metadata, status } = database
  const { namespace = '', name, labels: marks } = metadata
  return {
    kind: 'database',
    namespace,
    name,
    id: marks?.[labels.id],
    tenant: marks?.[labels.tenant],
    phase: status?.phase,
    isDeleting: metadata.deletionTimestamp !== undefined,
    operation: status?.operation,
    progressing: conditionOf(status, 'Progressing'),
    askedTaskId: () => readOperation(database)?.taskId,
    isInForce: () => isInForce(database),
  }
}

export const databaseSubjects = ({ databases }: Pick<Caches, 'databases'>): SubjectSource => ({
  kind: 'database',
  withTask: (namespace, taskId) => {
    const database = databases.byIndex('task', taskId).find(({ metadata }) => metadata.namespace === namespace)
    return database && subjectOf(database)
  },
  live: async (cluster, key) => {
    const database = await cluster.get('ManagedDatabase', key)
    return database && subjectOf(database)
  },
  onChange: handler =>
    databases.onChange(({ object, previous }) => handler(subjectOf(object), previous && subjectOf(previous))),
})

function backupSubject(backup: Backup): Subject {
  const { metadata, status } = backup
  const { namespace = '', name, labels: marks } = metadata
  return {
    kind: 'backup',
    namespace,
    name,
    id: marks?.[labels.id],
    tenant: marks?.[labels.tenant],
    phase: status?.phase,
    isDeleting: metadata.deletionTimestamp !== undefined,
    operation: status?.taskId === undefined ? undefined : { taskId: status.taskId, name: 'backup-managed' },
    progressing: conditionOf(status, 'Progressing'),
    askedTaskId: () => annotatedOperation(backup)?.taskId,
    isInForce: () => status?.phase === 'completed' || status?.phase === 'failed',
  }
}

export const backupSubjects = ({ backups }: Pick<Caches, 'backups'>): SubjectSource => ({
  kind: 'backup',
  withTask: (namespace, taskId) => {
    const backup = backups.byIndex('task', taskId).find(({ metadata }) => metadata.namespace === namespace)
    return backup && backupSubject(backup)
  },
  live: async (cluster, key) => {
    const backup = await cluster.get('Backup', key)
    return backup && backupSubject(backup)
  },
  onChange: handler =>
    backups.onChange(({ object, previous }) => handler(backupSubject(object), previous && backupSubject(previous))),
})
