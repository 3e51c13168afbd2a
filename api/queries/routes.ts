/** `/databases/{id}/queries`, and the same for a branch: the statements that take the most time. */

import { sendJson } from '../answers.ts'
import { findBranch } from '../branches/find.ts'
import type { ApiContext, App } from '../context.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { disconnected } from '../disconnect.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import type { SqlSessions } from '../sql/open.ts'
import { readQueries } from './read.ts'
import { queriesQuery, queriesShape } from './schema.ts'

const documentation = (what: Pick<Documentation, 'operationId' | 'tag' | 'summary'>): Documentation => ({
  ...what,
  description:
    'Returns the statements of the database `app` that take the most time, from pg_stat_statements. Constants are replaced by parameters. Counts start when Postgres began to count, and a crash sets them to 0. Uses a connection of the database for a moment. Returns 409 if the database does not run or does not count statements.',
  success: { status: 200, description: 'The statements.', shape: queriesShape },
  errors: [400, 404, 409],
})

const ofDatabase = documentation({
  operationId: 'getDatabaseQueries',
  tag: 'databases',
  summary: 'Read the statistics of statements',
})
const ofBranch = documentation({
  operationId: 'getBranchQueries',
  tag: 'branches',
  summary: 'Read the statistics of statements of a branch',
})

export function addQueries(app: App, { cluster, caches }: ApiContext, sessions: SqlSessions): void {
  const database = operation(ofDatabase, { params: idParameter, querystring: queriesQuery })
  app.get('/databases/:id/queries', { schema: database }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findDatabase({ cluster, caches }, namespace, request.params.id)
    const answer = await readQueries(sessions, found, request.query, disconnected(reply))
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify(answer))
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring: queriesQuery })
  app.get('/databases/:id/branches/:branch_id/queries', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findBranch({ cluster, caches }, namespace, request.params)
    const answer = await readQueries(sessions, found, request.query, disconnected(reply))
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify(answer))
  })
}
