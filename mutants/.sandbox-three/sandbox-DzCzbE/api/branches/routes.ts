/** `/databases/{id}/branches`: list and read the branches of a database. */
// @ts-nocheck

import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { sendJson } from '../answers.ts'
import { byDatabase, findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { renderConnection } from '../databases/credentials.ts'
import { branchParameters } from '../databases/schema.ts'
import { notFound } from '../errors.ts'
import { operation, paged } from '../operation.ts'
import { compareByCreation, filtered, pageHeaders, pageOf } from '../pages.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter, userTypeQuery } from '../schemas/common.ts'
import { branchPhase, renderBranch } from './render.ts'
import { branchShape, listBranchesQuery } from './schema.ts'

type Branch = Kinds['Branch']

const isNotDeleted = (branch: Branch): boolean => branchPhase(branch) !== 'deleted'

export function addBranches(app: App, context: ApiContext): void {
  addList(app, context)
  addRead(app, context)
}

function addList(app: App, { cluster, caches }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listBranches',
      tag: 'branches',
      summary: 'List the branches of a database',
      description: 'Oldest first, unless `descending` is set. `connection` is left out.',
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
    const rendered = items.map(branch => renderBranch(branch, caches.Region.get({ name: branch.spec.region })))
    return sendJson(reply, JSON.stringify(rendered))
  })
}

function addRead(app: App, { cluster, caches, readCredentials, openPassword }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'getBranch',
      tag: 'branches',
      summary: 'Read a branch',
      description: '`connection` is present once the branch has an address and the role of `user_type` has a password.',
      success: { status: 200, description: 'The branch.', shape: branchShape },
      errors: [400, 404],
    },
    { params: branchParameters, querystring: userTypeQuery },
  )
  app.get('/databases/:id/branches/:branch_id', { schema }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { id, branch_id: branchId } = request.params
    const branch = await findOwned(cluster, caches.Branch, 'Branch', namespace, branchId)
    if (branch === undefined || branch.spec.databaseId !== id) throw notFound('branch')
    const rendered = renderBranch(branch, caches.Region.get({ name: branch.spec.region }))
    const endpoint = branch.status?.endpoint
    const secret = endpoint && (await readCredentials(branch))
    const userType = request.query.user_type
    const password = secret && (await openPassword(secret, userType))
    if (endpoint === undefined || password === undefined) return sendJson(reply, JSON.stringify(rendered))
    reply.header('cache-control', 'no-store')
    const connection = renderConnection(endpoint, userType, password)
    return sendJson(reply, JSON.stringify({ ...rendered, connection }))
  })
}
