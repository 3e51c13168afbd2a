/** `/databases/{id}/branches`: create, list, read and delete the branches of a database. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase } from '../../crds/index.ts'
import { sendJson, taskHeaders, waitUntilMade } from '../answers.ts'
import { byDatabase, findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { renderConnection } from '../databases/credentials.ts'
import { withConnection } from '../databases/render.ts'
import { branchParameters } from '../databases/schema.ts'
import { notFound } from '../errors.ts'
import type { Answer, Ids } from '../idempotency.ts'
import { once, sendAnswer } from '../once.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { compareByCreation, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, userTypeQuery } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { validate } from '../validation.ts'
import { writerOf } from '../writer.ts'
import { renderBranch } from './render.ts'
import { branchShape, createBranchInput, listBranchesQuery } from './schema.ts'
import { createBranch, deleteBranch } from './write.ts'

type Branch = Kinds['Branch']

const isNotDeleted = (branch: Branch): boolean => branchPhase(branch) !== 'deleted'

export function addBranches(app: App, context: ApiContext): void {
  addCreate(app, context)
  addList(app, context)
  addRead(app, context)
  addDelete(app, context)
}

const rendered = ({ caches }: ApiContext, branch: Branch): string =>
  JSON.stringify(renderBranch(branch, caches.Region.get({ name: branch.spec.region })))

function addCreate(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'createBranch',
      tag: 'branches',
      summary: 'Create a branch',
      description:
        'Copies a database, or one of its branches, as it is at this moment. Answers as soon as the branch is recorded, with the status `creating`. The source goes on serving meanwhile. Nothing of a branch can be changed afterwards, and no change of the source reaches it. Answers 409 where the database has as many branches as it may have, where the source is not available, and where the storage takes no snapshot that a branch could be made from.',
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
      const work = async (ids: Ids): Promise<Answer> => {
        const branch = await createBranch(writer, id, input, ids)
        context.audit.done(request, { status: 201, taskId: ids.taskId, subjectId: ids.objectId })
        const made = (await waitUntilMade(context, request, reply, branch)) ?? branch
        return { status: 201, body: rendered(context, made), headers: taskHeaders(ids.taskId) }
      }
      return sendAnswer(reply, await once({ context, request, namespace: writer.account.namespace, body: input }, work))
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
        'At any depth, oldest first, unless `descending` is set. Deleted ones are left out unless `include_deleted` is set. `connection` is left out.',
      success: { status: 200, description: 'One page of branches.', shape: z.array(branchShape), headers: paged },
      errors: [400, 404],
    },
    { params: idParameter, querystring: listBranchesQuery },
  )
  app.get('/databases/:id/branches', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { query, params } = request
    const database = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, params.id)
    if (database === undefined) throw notFound('database')
    const branches = caches.Branch.byIndex(byDatabase, params.id)
      .filter(branch => branch.metadata.namespace === namespace && idOf(branch) !== undefined)
      .sort(compareByCreation)
    const { items, total } = pageOf(filtered(branches, [query.include_deleted ? undefined : isNotDeleted]), query)
    reply.headers(pageHeaders(request.url, query, total))
    return sendJson(reply, `[${items.map(branch => rendered(context, branch)).join(',')}]`)
  })
}

function addRead(app: App, context: ApiContext): void {
  const { cluster, caches, readCredentials, openPassword } = context
  const schema = operation(
    {
      operationId: 'getBranch',
      tag: 'branches',
      summary: 'Read a branch',
      description:
        '`connection` is present while the branch is `available` and the role of `user_type` has a password.',
      success: { status: 200, description: 'The branch.', shape: branchShape, headers: ['Preference-Applied'] },
      errors: [400, 404],
      takes: ['Prefer'],
    },
    { params: branchParameters, querystring: userTypeQuery },
  )
  app.get('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { id, branch_id: branchId } = request.params
    const found = await findOwned(cluster, caches.Branch, 'Branch', namespace, branchId)
    if (found === undefined || found.spec.databaseId !== id) throw notFound('branch')
    const branch = await waitUntilMade(context, request, reply, found)
    if (branch === undefined) throw notFound('branch')
    const text = rendered(context, branch)
    const endpoint = branchPhase(branch) === 'available' ? branch.status?.endpoint : undefined
    const secret = endpoint && (await readCredentials(branch))
    const userType = request.query.user_type
    const password = secret && (await openPassword(secret, userType))
    if (endpoint === undefined || password === undefined) return sendJson(reply, text)
    // What holds a password is nobody's to keep.
    reply.header('cache-control', 'no-store')
    return sendJson(reply, withConnection(text, renderConnection(endpoint, userType, password)))
  })
}

function addDelete(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'deleteBranch',
      tag: 'branches',
      summary: 'Delete a branch',
      description:
        'Billing stops, and the slot is free, with the answer. The data cannot be recovered. Branches of the branch stay. Asking again changes nothing. Answers 409 while the branch is being created, and while another one is being copied from it.',
      success: { status: 204, description: 'The deletion has begun.', headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Prefer'],
    },
    { params: branchParameters, querystring: z.strictObject({}) },
  )
  app.delete('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { id, branch_id: branchId } = request.params
    const { branch, taskId } = await deleteBranch(writerOf(context, request), id, branchId)
    context.audit.done(request, { status: 204, taskId, subjectId: branchId })
    reply.headers(taskHeaders(taskId))
    await waitUntilMade(context, request, reply, branch)
    return reply.code(204).send()
  })
}
