/**
 * Detects that an earlier attempt with the same Idempotency-Key has already applied a write, although its response was
 * lost or its process crashed. Each write with a key adds an annotation in the same write. It also removes the
 * annotations of requests whose response is stored, so there is rarely more than one.
 */
import { annotatedOperation, type ObjectMeta, type OperationName, operationName } from '../../crds/index.ts'
import type { ApiContext } from '../context.ts'
import { conflict, retryAfter } from '../errors.ts'
import type { Attempt } from './idempotency.ts'

/**
 * Entries separated by spaces: `<id of the task>/<name of the record>/<operation>`. The operation is empty if the
 * operator has nothing to do.
 */
const keyedWritesAnnotation = 'espalier.dev/keyed-writes'

type Annotated = { metadata: ObjectMeta }
type KeyedWrite = { taskId: string; record: string; operation: OperationName | undefined }

const textOf = ({ taskId, record, operation }: KeyedWrite): string => [taskId, record, operation ?? ''].join('/')

function keyedWritesOf({ metadata }: Annotated): KeyedWrite[] {
  const texts = metadata.annotations?.[keyedWritesAnnotation]?.split(' ') ?? []
  return texts.flatMap(text => {
    const [taskId, record, operation] = text.split('/')
    return taskId && record ? [{ taskId, record, operation: operationName.safeParse(operation).data }] : []
  })
}

/** Returns the annotation that an earlier attempt of this write left on the object; undefined if there is none. */
export function earlierAttempt(
  object: Annotated,
  { taskId }: Pick<Attempt, 'taskId'>,
): Pick<KeyedWrite, 'operation'> | undefined {
  const write = keyedWritesOf(object).find(found => found.taskId === taskId)
  if (write !== undefined) return write
  const annotated = annotatedOperation(object)
  return annotated?.taskId === taskId ? { operation: annotated.name } : undefined
}

/** More annotations exist only after repeated crashes. */
const mostKeyedWrites = 100

/** Returns the annotations that record this attempt on the object. @throws ApiError 409 */
export async function keyedWriteAnnotation(
  { idempotency }: Pick<ApiContext, 'idempotency'>,
  object: Annotated,
  { taskId, record }: Pick<Attempt, 'taskId' | 'record'>,
  operation: OperationName | undefined,
): Promise<Record<string, string>> {
  if (record === undefined) return {}
  const { namespace = '' } = object.metadata
  const writes = keyedWritesOf(object)
  const open = await Promise.all(writes.map(write => idempotency.isOpen(namespace, write.record, write.taskId)))
  const unanswered = writes.filter((_write, index) => open[index])
  if (unanswered.length >= mostKeyedWrites)
    throw conflict('too many requests with an Idempotency-Key are running: retry', retryAfter.busy)
  return { [keyedWritesAnnotation]: [...unanswered, { taskId, record, operation }].map(textOf).join(' ') }
}
