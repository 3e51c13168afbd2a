/** `/tasks`: the records of asynchronous operations, newest first. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { sendJson, sendRead, waitUntilEnded } from '../answers.ts'
import { findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { operation, paged } from '../operation.ts'
import { createSortedView, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { databaseOf } from './database.ts'
import { renderTask, taskPageText, taskStatus } from './render.ts'
import { listTasksQuery, taskShape } from './schema.ts'

type Task = Kinds['Task']

export function addTasks(app: App, context: ApiContext): void {
  const { cluster, caches } = context
  const view = createSortedView(caches.Task)
  const list = operation(
    {
      operationId: 'listTasks',
      tag: 'tasks',
      summary: 'List tasks',
      description:
        'Newest first. A task ends when its subject is stable, and not earlier. Ended tasks are kept for 30 days, at most the newest 100 of one subject. If a page would exceed 1 MiB, its longest tasks contain only their last messages; a read of the single task returns all.',
      success: { status: 200, description: 'One page of tasks.', shape: z.array(taskShape), headers: paged },
      errors: [400],
    },
    { querystring: listTasksQuery },
  )
  app.get('/tasks', { schema: list }, async (request, reply) => {
    const query = { ...request.query, descending: true }
    const { subject_id: subjectId, database_id: databaseId, subject_kind: subjectKind, id, name, status } = query
    const conditions = [
      subjectId === undefined ? undefined : (task: Task) => task.spec.subject.id === subjectId,
      databaseId === undefined ? undefined : (task: Task) => databaseOf(caches, task) === databaseId,
      subjectKind === undefined ? undefined : (task: Task) => task.spec.subject.kind === subjectKind,
      id === undefined ? undefined : (task: Task) => idOf(task) === id,
      name === undefined ? undefined : (task: Task) => task.spec.name === name,
      status === undefined ? undefined : (task: Task) => taskStatus(task) === status,
    ]
    const { items, total } = pageOf(filtered(view(accountOf(request).namespace), conditions), query)
    reply.headers(pageHeaders(request.url, query, total))
    return sendJson(reply, taskPageText(items))
  })

  const read = operation(
    {
      operationId: 'getTask',
      tag: 'tasks',
      summary: 'Read a task',
      success: { status: 200, description: 'The task.', shape: taskShape, headers: ['ETag', 'Preference-Applied'] },
      errors: [400, 404],
      takes: ['If-None-Match', 'Prefer'],
      conditional: true,
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.get('/tasks/:id', { schema: read }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const task = await findOwned(cluster, caches.Task, 'Task', namespace, request.params.id)
    if (task === undefined) throw notFound('task')
    const ended = (await waitUntilEnded(context, request, reply, task)) ?? task
    return sendRead(request, reply, JSON.stringify(renderTask(ended)))
  })
}
