/** `/databases/{id}/branches`: create, list, read and delete the branches of a database. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase } from '../../crds/index.ts'
import { sendJson, sendRead, taskHeaders, waitUntilMade } from '../answers.ts'
import { byDatabase, findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { renderConnection } from '../databases/credentials.ts'
import { withConnection } from '../databases/render.ts'
import { branchParameters } from '../databases/schema.ts'
import { notFound } from '../errors.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/claims.ts'
import type { Answer, Ids } from '../idempotency/record.ts'
import { asynchronous, operation, paged } from '../operation.ts'
import { compareByCreation, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { preconditionOf } from '../preconditions.ts'
import { idParameter, type UserType, userTypeQuery, userTypes } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody, validate } from '../validation.ts'
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

/** With the secrets of its services, while it can be used. */
async function plainOf(context: ApiContext, branch: Branch) {
  const text = rendered(context, branch)
  const isShown = branch.spec.services.length > 0 && ['creating', 'available'].includes(branchPhase(branch))
  return isShown ? context.serviceSecrets.shown(branch, text) : { text, holdsSecret: false }
}

/** What a read of the branch answers, `connection` included where there is one. @throws ApiError 503 */
async function readBy(context: ApiContext, branch: Branch, userType: UserType) {
  const { text, holdsSecret } = await plainOf(context, branch)
  const endpoint = branchPhase(branch) === 'available' ? branch.status?.endpoint : undefined
  const secret = endpoint && (await context.readCredentials(branch))
  const password = secret && (await context.openPassword(secret, userType))
  if (endpoint === undefined || password === undefined) return { text, holdsSecret }
  return { text: withConnection(text, renderConnection(endpoint, userType, password)), holdsSecret: true }
}

/** Every body that a read of the branch can have now. @throws ApiError 503 */
const bodiesOf = async (context: ApiContext, branch: Branch): Promise<string[]> =>
  (await Promise.all(userTypes.map(userType => readBy(context, branch, userType)))).map(({ text }) => text)

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
      const { namespace } = writer.account
      const work = async (attempt: Attempt): Promise<Answer> => {
        const branch = await createBranch(writer, id, input, attempt)
        context.audit.done(request, { status: 201, taskId: attempt.taskId, subjectId: attempt.objectId })
        return { status: 201, body: rendered(context, branch), headers: taskHeaders(attempt.taskId) }
      }
      const settled = async ({ objectId }: Ids) => {
        const found = await findOwned(context.cluster, context.caches.Branch, 'Branch', namespace, objectId)
        const made = found && (await waitUntilMade(context, request, reply, found))
        return made && rendered(context, made)
      }
      return answerOnce(context, request, reply, { body: input, work, settled })
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
  const { cluster, caches } = context
  const schema = operation(
    {
      operationId: 'getBranch',
      tag: 'branches',
      summary: 'Read a branch',
      description:
        '`connection` is present while the branch is `available` and the role of `user_type` has a password. Tokens and keys of services that can be read are returned here only.',
      success: { status: 200, description: 'The branch.', shape: branchShape, headers: ['ETag', 'Preference-Applied'] },
      errors: [400, 404],
      takes: ['If-None-Match', 'Prefer'],
      conditional: true,
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
    const { text, holdsSecret } = await readBy(context, branch, request.query.user_type)
    // No cache may keep what holds a password or a key.
    if (holdsSecret) reply.header('cache-control', 'no-store')
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
        'Billing stops, and the slot is free, with the answer. The data cannot be recovered. Branches of the branch stay. Asking again changes nothing. Answers 409 while the branch is being created, and while another one is being copied from it.',
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
    const settled = async () => {
      const found = await findOwned(context.cluster, context.caches.Branch, 'Branch', namespace, id)
      if (found !== undefined) await waitUntilMade(context, request, reply, found)
      return undefined
    }
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, settled })
  })
}
