/**
 * Renders tasks. A response stays small for any Task: a request is limited to its allowed fields, and the tasks of a
 * page share a budget of bytes.
 */
import type { Kinds } from '../../cluster/index.ts'
import { highestRequestBytes, taskRequest } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import { createdTime } from '../render/created-at.ts'
import { apiTime } from '../render/time.ts'
import type { TaskShape } from './schema.ts'

/** Returns the later of two times, which have the same format. */
const laterOf = (left: string, right: string): string => (left < right ? right : left)

/** A task that the operator has not started yet is queued. */
export const taskStatus = ({ status }: Kinds['Task']): TaskShape['status'] => status?.phase ?? 'queued'

export function renderTask(task: Kinds['Task']): TaskShape {
  const { spec, status } = task
  const createdAt = createdTime(task)
  return {
    id: idOf(task) ?? '',
    created_at: createdAt,
    updated_at: status?.updatedAt === undefined ? createdAt : laterOf(createdAt, apiTime(status.updatedAt)),
    subject_kind: spec.subject.kind,
    subject_id: spec.subject.id,
    subject_name: spec.subject.name,
    name: spec.name,
    messages: (status?.messages ?? []).map(message => ({ ...message, time: apiTime(message.time) })),
    status: taskStatus(task),
    ...(status?.error === undefined ? {} : { error: status.error }),
    ...(spec.request === undefined ? {} : { request: taskRequest(spec.request) }),
    ...(status?.response === undefined ? {} : { response: boundedResponse(status.response) }),
  }
}

/** The result of an operation is small. A larger result is not returned. */
const boundedResponse = (response: Record<string, unknown>): Record<string, unknown> =>
  Buffer.byteLength(JSON.stringify(response)) <= highestRequestBytes ? response : {}

/** The maximum size of a page's text, in bytes. */
const highestPageBytes = 1024 * 1024

/**
 * Returns the JSON text of one page with all its tasks. If they are too long together, the longest tasks lose messages.
 */
export function taskPageText(tasks: readonly Kinds['Task'][]): string {
  const shapes = tasks.map(renderTask)
  const texts = shapes.map(shape => JSON.stringify(shape))
  const bytes = texts.map(text => Buffer.byteLength(text))
  if (bytes.reduce((sum, each) => sum + each, 0) <= highestPageBytes) return `[${texts.join(',')}]`
  const share = Math.floor(highestPageBytes / tasks.length)
  const bounded = shapes.map((shape, index) => ((bytes[index] ?? 0) <= share ? texts[index] : abridged(shape, share)))
  return `[${bounded.join(',')}]`
}

/** Returns a task's text without the request, and with as many of its last messages as fit. */
function abridged({ request: _request, response: _response, ...task }: TaskShape, highestBytes: number): string {
  const shown: TaskShape['messages'] = []
  let remaining = highestBytes - Buffer.byteLength(JSON.stringify({ ...task, messages: [] }))
  for (const message of task.messages.toReversed()) {
    remaining -= Buffer.byteLength(JSON.stringify(message)) + 1
    if (remaining < 0) break
    shown.unshift(message)
  }
  return JSON.stringify({ ...task, messages: shown })
}
