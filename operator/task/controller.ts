/**
 * The controller of Tasks. It creates a Task for each operation without one. It updates the Task's status from the
 * subject until the Task ends. It writes nothing else. The controller of databases removes an operation from the status
 * only after its Task has ended.
 */
import type { Draft } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import {
  annotations,
  apiVersion,
  canonicalJson,
  childNames,
  isEnded,
  labels,
  managedByEspalier,
  type Task,
} from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { createIfAbsent } from '../objects/create.ts'
import { finished, outcomeOf, progressOf, startWithinMs } from './progress.ts'
import { startRetention } from './retention-controller.ts'
import { type Subject, type SubjectSource, subjectWithTask } from './subject.ts'

type TaskControllerOptions = ControllerOptions & {
  workers: number
  /** The kinds whose operations this version can run. */
  sources: readonly SubjectSource[]
}

/** The Task of the operation that a subject's status names. */
function taskDraft({ kind, namespace, name, id, tenant, operation }: Subject, now: number): Draft<'Task'> | undefined {
  if (operation === undefined || id === undefined || namespace === '') return undefined
  return {
    apiVersion,
    kind: 'Task',
    metadata: {
      name: childNames.task(operation.taskId),
      namespace,
      labels: {
        [labels.managedBy]: managedByEspalier,
        [labels.id]: operation.taskId,
        [labels.subject]: id,
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
      annotations: { [annotations.createdAt]: preciseTime(now) },
    },
    spec: { name: operation.name, subject: { kind, id, name } },
  }
}

export function startTaskController(options: TaskControllerOptions): { stop(): Promise<void> } {
  const { caches, sources, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)

  const reconcile = async (key: string) => {
    const name = parseKey(key)
    const task = caches.tasks.get(name)
    const subject = subjectWithTask(sources, name)
    if (task === undefined) {
      if (subject !== undefined) await create(subject)
      return undefined
    }
    if (isEnded(task)) return undefined
    const { kind } = task.spec.subject
    const source = sources.find(each => each.kind === kind)
    if (source === undefined) {
      await write(task, finished(task.status, now(), `this version of the operator cannot run operations on a ${kind}`))
      return undefined
    }
    if (subject !== undefined) {
      await write(task, progressOf(task.status, subject, now()))
      return undefined
    }
    return decide(task, source)
  }

  const create = async (subject: Subject) => {
    const draft = taskDraft(subject, now())
    if (draft === undefined) return
    // If a Task exists, the API created it and the cache does not have it yet, or it has ended.
    await createIfAbsent(cluster, 'Task', draft)
  }

  const write = async (task: Task, status: Task['status']) => {
    if (canonicalJson(status) === canonicalJson(task.status ?? {})) return
    const written = await cluster.replaceStatus('Task', { ...task, ...(status === undefined ? {} : { status }) })
    if (isEnded(written)) retention.ended(written)
  }

  /** No operation in the caches matches this Task. Only the state in the cluster itself counts. */
  const decide = async (task: Task, source: SubjectSource) => {
    const { namespace } = task.metadata
    const live = await source.live(cluster, { namespace, name: task.spec.subject.name })
    const outcome = outcomeOf(task, live, now())
    if (outcome.state === 'waiting') return { requeueAfterMs: startWithinMs }
    await write(task, finished(task.status, now(), outcome.error))
    return undefined
  }

  const retention = startRetention({ ...options, cluster })
  const controller: Controller = startController({
    name: 'task',
    workers: options.workers,
    reconcile,
    signal,
    logger,
    metrics,
  })
  /** When the subject changes, enqueues the Task of its operation, and all its other open Tasks. */
  const ofSubject = ({ kind, namespace, name, operation }: Subject) => {
    if (operation !== undefined) controller.enqueue(`${namespace}/${childNames.task(operation.taskId)}`)
    for (const task of caches.tasks.byIndex('subject', `${namespace}/${kind}/${name}`)) controller.enqueue(keyOf(task))
  }
  const unsubscribe = [
    caches.tasks.onChange(({ object, previous }) => {
      // A Task that has ended leaves the cache. A Task that was still open was deleted by another client.
      if (!isEnded(previous ?? object)) controller.enqueue(keyOf(object))
    }),
    ...sources.map(source =>
      source.onChange((subject, previous) => {
        ofSubject(subject)
        if (previous !== undefined && previous.operation?.taskId !== subject.operation?.taskId) ofSubject(previous)
      }),
    ),
  ]
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      await Promise.all([controller.stop(), retention.stop()])
    },
  }
}
