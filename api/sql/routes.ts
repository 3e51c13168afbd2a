/**
 * `/databases/{id}/sql`, and the same for a branch: runs SQL statements, and streams the results as Postgres returns
 * them (docs/decisions/0093-sql-endpoint.md).
 */

import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { SqlAudit } from '../audit.ts'
import { findBranch } from '../branches/find.ts'
import { idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import type { CredentialsOwner } from '../databases/credentials.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { disconnected } from '../disconnect.ts'
import { badRequest } from '../errors.ts'
import type { SqlFigures } from '../metrics.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import type { SqlSessions } from './open.ts'
import { type Plan, planOf } from './plan.ts'
import { type Outcome, runPlan } from './run.ts'
import { type SqlInput, sqlInput, sqlLine } from './schema.ts'
import { whileRead } from './while-read.ts'

/** If a client leaves a line unread for this time, the API disconnects the client. */
const unreadMs = 60_000

const about =
  'Runs statements one after another, and streams the result of each as lines of JSON. A read is the default: its statements run in one READ ONLY transaction with one snapshot. A line `columns` precedes the rows of a statement that returns rows; a line `complete` ends each statement. A statement that fails is the last one: its line is `error`, and the status is still 200. Rows are fetched as the client reads them. Closing the connection cancels the running statement. Each replica of the API runs at most 4 requests at once for a database and for an account, and fewer for small sizes or under load. Above the limit, returns 429. All statements of a request together may take about 600 seconds. Returns 409 if the database is suspended, and 503 if Postgres cannot be reached.'

const documentation = (what: Pick<Documentation, 'operationId' | 'tag' | 'summary'>): Documentation => ({
  ...what,
  description: about,
  success: { status: 200, description: 'The lines.', shape: sqlLine, mediaType: 'application/x-ndjson' },
  errors: [400, 404, 409],
})

const ofDatabase = documentation({ operationId: 'runSql', tag: 'databases', summary: 'Run SQL on a database' })
const ofBranch = documentation({ operationId: 'runBranchSql', tag: 'branches', summary: 'Run SQL on a branch' })

type SqlOptions = { readonly figures: SqlFigures; readonly sessions: SqlSessions }

export function addSql(app: App, context: ApiContext, options: SqlOptions): void {
  const { cluster, caches } = context
  const run = createRunner(context, options)

  const querystring = z.strictObject({})
  const database = operation(ofDatabase, { params: idParameter, querystring, body: sqlInput })
  app.post('/databases/:id/sql', { schema: database }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findDatabase({ cluster, caches }, namespace, request.params.id)
    return run({ request, reply, owner: found, input: request.body })
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring, body: sqlInput })
  app.post('/databases/:id/branches/:branch_id/sql', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findBranch({ cluster, caches }, namespace, request.params)
    return run({ request, reply, owner: found, input: request.body })
  })
}

type SqlRequest = { request: FastifyRequest; reply: FastifyReply; owner: CredentialsOwner; input: SqlInput }

function createRunner(context: ApiContext, options: SqlOptions): (sqlRequest: SqlRequest) => Promise<FastifyReply> {
  const { audit } = context
  const { figures, sessions } = options

  return async ({ request, reply, owner, input }) => {
    sessions.requireEnabled()
    if (request.headers['idempotency-key'] !== undefined)
      throw badRequest('Idempotency-Key: not supported here; a repeated request runs the statements again')
    const plan = planOf(input)
    const signal = disconnected(reply)
    const session = await sessions.open(owner, plan, signal)
    const record = recordOf(owner, plan, input)
    // Writes the record before anything runs, so that the record exists even if the API crashes.
    audit.done(request, { status: 200, sql: record })
    let hasEnded = false
    const onEnd = (outcome: Outcome) => {
      if (hasEnded) return
      hasEnded = true
      figures.ended(plan.mode, outcome.result)
      audit.also(request, { status: 200, sql: { ...record, ...outcome } })
    }
    // Sends the headers immediately. So the client knows that its statements run, even if the first row takes long.
    reply.raw.once('pipe', () => reply.raw.flushHeaders())
    const unread = () => {
      reply.raw.destroy()
      leave()
    }
    const lines = whileRead(runPlan(session, plan, onEnd), unreadMs, unread)
    const body = Readable.from(lines, { objectMode: false })
    const leave = () => {
      body.destroy()
      session.abort()
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave)
    body.once('close', () => {
      // If the generator has not started, its `finally` does not run: close the session here.
      session.abort()
      onEnd({ result: 'canceled', completed: 0 })
    })
    return reply
      .type('application/x-ndjson')
      .headers({ 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
      .send(body)
  }
}

function recordOf(owner: CredentialsOwner, { mode, role, steps }: Plan, { text, explain }: SqlInput): SqlAudit {
  const id = idOf(owner) ?? ''
  return {
    ...(owner.kind === 'Branch' ? { database_id: owner.spec.databaseId, branch_id: id } : { database_id: id }),
    mode,
    role,
    ...(explain === undefined ? {} : { explain }),
    statements: steps.length,
    sha256: hash('sha256', text),
  }
}
