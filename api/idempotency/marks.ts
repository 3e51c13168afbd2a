/**
 * How a write finds on its object that an earlier try with the same Idempotency-Key has made it already, where nobody heard of
 * that any more: since a process died, or an answer was lost. Each write with a key leaves a mark, in the very write, and takes with
 * it the marks of those whose answer is kept by now, so that there is hardly ever more than one.
 */
import { annotatedOperation, type ObjectMeta, type OperationName, operationName } from '../../crds/index.ts'
import type { ApiContext } from '../context.ts'
import { conflict, retryAfter } from '../errors.ts'
import type { Attempt } from './claims.ts'

/** By spaces, each `<id of the task>/<name of the record>/<operation>`; the last is empty where nothing is left to the operator. */
const marksAnnotation = 'espalier.dev/keyed-writes'

type Marked = { metadata: ObjectMeta }
type Mark = { taskId: string; record: string; operation: OperationName | undefined }

const textOf = ({ taskId, record, operation }: Mark): string => [taskId, record, operation ?? ''].join('/')

function marksOf({ metadata }: Marked): Mark[] {
  const texts = metadata.annotations?.[marksAnnotation]?.split(' ') ?? []
  return texts.flatMap(text => {
    const [taskId, record, operation] = text.split('/')
    return taskId && record ? [{ taskId, record, operation: operationName.safeParse(operation).data }] : []
  })
}

/** What an earlier try of this write has left on the object; undefined where none came as far. */
export function earlierTry(object: Marked, { taskId }: Pick<Attempt, 'taskId'>): Pick<Mark, 'operation'> | undefined {
  const mark = marksOf(object).find(found => found.taskId === taskId)
  if (mark !== undefined) return mark
  const annotated = annotatedOperation(object)
  return annotated?.taskId === taskId ? { operation: annotated.name } : undefined
}

/** More than these are only there where processes die one after the other. */
const mostMarks = 100

/** The annotations that mark an object as written by this try. @throws ApiError 409 */
export async function markOf(
  { idempotency }: Pick<ApiContext, 'idempotency'>,
  object: Marked,
  { taskId, record }: Pick<Attempt, 'taskId' | 'record'>,
  operation: OperationName | undefined,
): Promise<Record<string, string>> {
  if (record === undefined) return {}
  const { namespace = '' } = object.metadata
  const marks = marksOf(object)
  const open = await Promise.all(marks.map(mark => idempotency.isOpen(namespace, mark.record, mark.taskId)))
  const kept = marks.filter((_mark, index) => open[index])
  if (kept.length >= mostMarks)
    throw conflict('too many requests with an Idempotency-Key are under way: try again', retryAfter.busy)
  return { [marksAnnotation]: [...kept, { taskId, record, operation }].map(textOf).join(' ') }
}
