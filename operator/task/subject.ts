/**
 * The subject of a Task, for the controller of Tasks: a resource whose status names the running operation, and whose
 * condition Progressing reports its progress. If a kind provides a source, its operations get Tasks.
 */
import type { Cluster, Kinds, ObjectKey } from '../../cluster/index.ts'
import type { Informer } from '../../cluster/informer/index.ts'
import {
  annotatedOperation,
  type Backup,
  type Branch,
  branchPhase,
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

type SubjectKind = Task['spec']['subject']['kind']

export type Subject = {
  kind: SubjectKind
  namespace: string
  name: string
  /** The id in the API. Undefined until it is assigned. */
  id: string | undefined
  tenant: string | undefined
  phase: string | undefined
  isDeleting: boolean
  /** The operation that the subject's status names. */
  operation: { taskId: string; name: OperationName } | undefined
  progressing: Condition | undefined
  /** The Task of the last API request. */
  requestedTaskId: () => string | undefined
  /** Whether the complete request is applied. */
  isInForce: () => boolean
}

/** Finds the subjects of one kind. */
export type SubjectSource = {
  kind: SubjectKind
  /** The subject whose status names this Task. Reads the caches. */
  withTask(namespace: string, taskId: string): Subject | undefined
  /** The object with this name. Reads the cluster. */
  live(cluster: Cluster, key: ObjectKey): Promise<Subject | undefined>
  onChange(handler: (subject: Subject, previous: Subject | undefined) => void): () => void
}

const taskPrefix = childNames.task('')

/** The subject of any kind whose status names the Task with this name. Reads the caches. */
export function subjectWithTask(
  sources: readonly SubjectSource[],
  { namespace, name }: ObjectKey,
): Subject | undefined {
  if (!name.startsWith(taskPrefix)) return undefined
  const taskId = name.slice(taskPrefix.length)
  return sources.map(source => source.withTask(namespace ?? '', taskId)).find(found => found !== undefined)
}

type SubjectResource = 'ManagedDatabase' | 'Branch' | 'Backup'

const whose = ({ metadata }: Kinds[SubjectResource]) => ({
  namespace: metadata.namespace ?? '',
  name: metadata.name,
  id: metadata.labels?.[labels.id],
  tenant: metadata.labels?.[labels.tenant],
  isDeleting: metadata.deletionTimestamp !== undefined,
})

export const subjectOf = (database: ManagedDatabase): Subject => ({
  kind: 'database',
  ...whose(database),
  phase: database.status?.phase,
  operation: database.status?.operation,
  progressing: conditionOf(database.status, 'Progressing'),
  requestedTaskId: () => readOperation(database)?.taskId,
  isInForce: () => isInForce(database),
})

function backupSubject(backup: Backup): Subject {
  const { status } = backup
  return {
    kind: 'backup',
    ...whose(backup),
    phase: status?.phase,
    operation: status?.taskId === undefined ? undefined : { taskId: status.taskId, name: 'backup-managed' },
    progressing: conditionOf(status, 'Progressing'),
    requestedTaskId: () => annotatedOperation(backup)?.taskId,
    isInForce: () => status?.phase === 'completed' || status?.phase === 'failed',
  }
}

function branchSubject(branch: Branch): Subject {
  const { status } = branch
  const phase = branchPhase(branch)
  return {
    kind: 'branch',
    ...whose(branch),
    phase,
    isDeleting: phase === 'deleting',
    operation: status?.operation,
    progressing: conditionOf(status, 'Progressing'),
    requestedTaskId: () => annotatedOperation(branch)?.taskId,
    isInForce: () => phase !== 'creating',
  }
}

/** The subjects in an informer, which must have the index `task`. */
const sourceOf = <K extends SubjectResource>(
  kind: SubjectKind,
  resource: K,
  informer: Informer<K>,
  subject: (object: Kinds[K]) => Subject,
): SubjectSource => ({
  kind,
  withTask: (namespace, taskId) => {
    const found = informer.byIndex('task', taskId).find(({ metadata }) => metadata.namespace === namespace)
    return found && subject(found)
  },
  live: async (cluster, key) => {
    const found = await cluster.get(resource, key)
    return found && subject(found)
  },
  onChange: handler =>
    informer.onChange(({ object, previous }) => handler(subject(object), previous && subject(previous))),
})

export const databaseSubjects = ({ databases }: Pick<Caches, 'databases'>): SubjectSource =>
  sourceOf('database', 'ManagedDatabase', databases, subjectOf)

export const branchSubjects = ({ branches }: Pick<Caches, 'branches'>): SubjectSource =>
  sourceOf('branch', 'Branch', branches, branchSubject)

export const backupSubjects = ({ backups }: Pick<Caches, 'backups'>): SubjectSource =>
  sourceOf('backup', 'Backup', backups, backupSubject)
