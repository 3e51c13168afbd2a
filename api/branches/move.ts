/**
 * `PATCH /databases/{id}/branches/{branch}`: moves a branch to another target. The target is a field of the Branch. The
 * operator recovers a new volume, and keeps the current volume until the new volume serves.
 */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import {
  annotations,
  isSameTarget,
  presentTarget,
  type RestoreTarget,
  renderOperation,
  targetText,
} from '../../crds/index.ts'
import { taskHeaders, waitUntilBranchStable } from '../answers.ts'
import { findOwned, readOwned } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { readDatabase } from '../databases/find.ts'
import { refuseOtherThanOne } from '../databases/moment.ts'
import { branchParameters } from '../databases/schema.ts'
import { badRequest, notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { earlierAttempt, keyedWriteAnnotation } from '../idempotency/keyed-writes.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { preconditionOf } from '../preconditions.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { guarded, recordTask, timeNow, type Writer, writerOf } from '../writer.ts'
import { decideMove } from './decide.ts'
import { bodiesOf, rendered } from './read.ts'
import { branchShape, moveBranchInput, type TargetInput } from './schema.ts'
import { targetOf } from './write.ts'

type Branch = Kinds['Branch']
type Move = {
  databaseId: string
  id: string
  input: TargetInput
  requireCurrent: ((current: Branch) => Promise<void>) | undefined
}

/** @throws ApiError 400, 404, 409 */
async function targetIn(writer: Writer, { databaseId, input }: Move): Promise<RestoreTarget> {
  const { context, account } = writer
  const database = await readDatabase(context, account.namespace, databaseId)
  const target = await targetOf(writer, database, databaseId, input)
  if (target === undefined) throw badRequest('target_time: is required')
  return target
}

/** @throws ApiError 400, 404, 409, 412 */
async function moveBranch(writer: Writer, move: Move, attempt: Attempt): Promise<Branch> {
  refuseOtherThanOne(move.input, [])
  const { context, account } = writer
  const { namespace } = account
  const { cluster, caches } = context
  const { taskId } = attempt
  const branch = await guarded({ namespace, id: move.id, what: 'branch' }, async () => {
    const current = await readOwned(cluster, 'Branch', namespace, move.id)
    if (current === undefined || current.spec.databaseId !== move.databaseId) throw notFound('branch')
    if (earlierAttempt(current, attempt) !== undefined) return current
    await move.requireCurrent?.(current)
    const { items } = await cluster.list('Branch', { namespace })
    decideMove(current, items)
    const target = await targetIn(writer, move)
    const present = presentTarget(current)
    const { metadata, spec } = current
    const added = {
      [annotations.operation]: renderOperation({ taskId, name: 'move-branch', hash: targetText(target) }),
      [annotations.updatedAt]: timeNow(context),
      ...(await keyedWriteAnnotation(context, current, attempt, 'move-branch')),
    }
    // As in every PATCH, the same target changes nothing.
    if (present !== undefined && isSameTarget(present, target) && isSameTarget(present, spec.target ?? {}))
      return current
    return cluster.replace('Branch', {
      ...current,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...added } },
      spec: { ...spec, target },
    })
  })
  caches.Branch.writeThrough(branch)
  return branch
}

export function addMove(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'moveBranch',
      tag: 'branches',
      summary: 'Move a branch to another point in time',
      description:
        'For a branch that was created with a target: replaces its data by those of another target, later or earlier. Id, name, address, passwords, allowlist and services are unchanged. Everything that was written on the branch is lost. The status is `creating`, and the endpoint closed, until the branch serves the new data. If they cannot be recovered, the task fails, and the branch serves its current data again. The present target again changes nothing. Returns 409 while the branch is being created, moved or deleted, or while another branch is being copied from it.',
      success: { status: 202, description: 'The branch.', shape: branchShape, headers: asynchronous },
      errors: [400, 404, 409, 412],
      takes: ['Idempotency-Key', 'If-Match', 'Prefer'],
    },
    { params: branchParameters, body: moveBranchInput, querystring: z.strictObject({}) },
  )
  app.patch('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { id: databaseId, branch_id: id } = request.params
    const input = request.body
    const writer = writerOf(context, request)
    const { namespace } = writer.account
    requireCurrentPlan(writer.account, context.now())
    const condition = preconditionOf(request.headers)
    const requireCurrent = condition && ((current: Branch) => condition(() => bodiesOf(context, current)))
    const work = async (attempt: Attempt): Promise<Answer> => {
      const branch = await moveBranch(writer, { databaseId, id, input, requireCurrent }, attempt)
      const isMoving = earlierAttempt(branch, attempt) !== undefined
      const taskId = isMoving ? attempt.taskId : undefined
      if (taskId !== undefined) {
        const subject = { kind: 'branch' as const, id, name: branch.metadata.name }
        await recordTask(writer, { taskId, name: 'move-branch', subject, request: input })
      }
      context.audit.done(request, { status: 202, taskId, subjectId: id })
      return { status: 202, body: rendered(context, branch), headers: taskHeaders(taskId) }
    }
    const afterWait = async () => {
      const found = await findOwned(context.cluster, context.caches.Branch, 'Branch', namespace, id)
      const made = found && (await waitUntilBranchStable(context, request, reply, found))
      return made && rendered(context, made)
    }
    return answerOnce(context, request, reply, { body: input, objectId: id, work, afterWait })
  })
}
