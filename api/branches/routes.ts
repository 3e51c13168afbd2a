/** `/databases/{id}/branches`: create, list, read, move and delete the branches of a database. */

import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase } from '../../crds/index.ts'
import { sendJson, sendRead, taskHeaders, waitUntilBranchStable } from '../answers.ts'
import { byDatabase, findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer, Ids } from '../idempotency/record.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { compareByCreation, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { preconditionOf } from '../preconditions.ts'
import { idParameter, userTypeQuery } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody, validate } from '../validation.ts'
import { writerOf } from '../writer.ts'
import { findBranch } from './find.ts'
import { addMove } from './move.ts'
import { bodiesOf, readBy, rendered } from './read.ts'
import { branchShape, createBranchInput, listBranchesQuery } from './schema.ts'
import { createBranch, deleteBranch } from './write.ts'

type Branch = Kinds['Branch']

const isNotDeleted = (branch: Branch): boolean => branchPhase(branch) !== 'deleted'

export function addBranches(app: App, context: ApiContext): void {
  addCreate(app, context)
  addList(app, context)
  addRead(app, context)
  addMove(app, context)
  addDelete(app, context)
}

function addCreate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createBranch',
      tag: 'branches',
      summary: 'Create a branch',
      description:
        'Copies a database, or one of its branches, in its present state. With `target_time`, `target_lsn`, `target_name` or a durable `backup_id`, the branch is created from the archive with the data at that point; the database need not be running. Returns 400 for a time outside the recovery window. Answers once the branch is recorded, with the status `creating`. The source keeps serving meanwhile. A branch cannot be changed afterwards, except that one with a target can be moved to another target, and no change of the source affects it. Returns 409 if the database has its maximum number of branches, if the source is not available, or if the storage cannot create the snapshot.',
      success: { status: 201, description: 'The new branch.', shape: branchShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.post(
    '/databases/:id/branches',
    { schema: { ...schema, body: createBranchInput.optional() } },
    async (request, reply) => {
      const writer = writerOf(context, request)
      const { id } = request.params
      const input = validate(createBranchInput, request.body ?? {}, 'body')
      requireCurrentPlan(writer.account, context.now())
      const { namespace } = writer.account
      const work = async (attempt: Attempt): Promise<Answer> => {
        const branch = await createBranch(writer, id, input, attempt)
        context.audit.done(request, { status: 201, taskId: attempt.taskId, subjectId: attempt.objectId })
        return { status: 201, body: rendered(context, branch), headers: taskHeaders(attempt.taskId) }
      }
      const afterWait = async ({ objectId }: Ids) => {
        const found = await findOwned(context.cluster, context.caches.Branch, 'Branch', namespace, objectId)
        const made = found && (await waitUntilBranchStable(context, request, reply, found))
        return made && rendered(context, made)
      }
      return answerOnce(context, request, reply, { body: input, work, afterWait })
    },
  )
}

function addList(app: App, context: ApiContext): void {
  const { cluster, caches } = context
  const schema = operation(
    {
      operationId: 'listBranches',
      tag: 'branches',
      summary: 'List the branches of a database',
      description:
        'At any depth, oldest first, unless `descending` is set. Deleted branches are omitted unless `include_deleted` is set. `connection` is omitted.',
      success: { status: 200, description: 'One page of branches.', shape: z.array(branchShape), headers: paged },
      errors: [400, 404],
    },
    { params: idParameter, querystring: listBranchesQuery },
  )
  app.get('/databases/:id/branches', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { query, params } = request
    await findDatabase({ cluster, caches }, namespace, params.id)
    const branches = caches.Branch.byIndex(byDatabase, params.id)
      .filter(branch => branch.metadata.namespace === namespace && idOf(branch) !== undefined)
      .sort(compareByCreation)
    const { items, total } = pageOf(filtered(branches, [query.include_deleted ? undefined : isNotDeleted]), query)
    reply.headers(pageHeaders(request.url, query, total))
    return sendJson(reply, `[${items.map(branch => rendered(context, branch)).join(',')}]`)
  })
}

function addRead(app: App, context: ApiContext): void {
  const { cluster, caches } = context
  const schema = operation(
    {
      operationId: 'getBranch',
      tag: 'branches',
      summary: 'Read a branch',
      description:
        '`connection` is present while the branch is `available` and the role of `user_type` has a password. Readable tokens and keys of services are returned only here.',
      success: { status: 200, description: 'The branch.', shape: branchShape, headers: ['ETag', 'Preference-Applied'] },
      errors: [400, 404],
      takes: ['If-None-Match', 'Prefer'],
      conditional: true,
    },
    { params: branchParameters, querystring: userTypeQuery },
  )
  app.get('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findBranch({ cluster, caches }, namespace, request.params)
    const branch = await waitUntilBranchStable(context, request, reply, found)
    if (branch === undefined) throw notFound('branch')
    const { text, containsSecret } = await readBy(context, branch, request.query.user_type)
    // Responses with a password or a key must not be cached.
    if (containsSecret) reply.header('cache-control', 'no-store')
    return sendRead(request, reply, text)
  })
}

function addDelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'deleteBranch',
      tag: 'branches',
      summary: 'Delete a branch',
      description:
        'Billing stops, and the slot is free, with the response. The data cannot be recovered. Branches of the branch remain. Repeating the request changes nothing. Returns 409 while the branch is being created, or while another branch is being copied from it.',
      success: { status: 204, description: 'The deletion has begun.', headers: asynchronous },
      errors: [400, 404, 409, 412],
      takes: ['Idempotency-Key', 'If-Match', 'Prefer'],
    },
    { params: branchParameters, querystring: z.strictObject({}) },
  )
  app.delete('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { id: databaseId, branch_id: id } = request.params
    const writer = writerOf(context, request)
    const { namespace } = writer.account
    refuseBody(request)
    const condition = preconditionOf(request.headers)
    const requireCurrent = condition && ((current: Branch) => condition(() => bodiesOf(context, current)))
    const work = async (attempt: Attempt): Promise<Answer> => {
      const taskId = await deleteBranch(writer, id, { databaseId, attempt, requireCurrent })
      context.audit.done(request, { status: 204, taskId, subjectId: id })
      return { status: 204, body: '', headers: taskHeaders(taskId) }
    }
    const afterWait = async () => {
      const found = await findOwned(context.cluster, context.caches.Branch, 'Branch', namespace, id)
      if (found !== undefined) await waitUntilBranchStable(context, request, reply, found)
      return undefined
    }
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}
