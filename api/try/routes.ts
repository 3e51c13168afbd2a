/**
 * `/databases/{id}/services/{type}/try`, and the same for a branch: sends one request to a service, and returns its
 * response (docs/decisions/0106-requests-to-services.md).
 */
import { randomUUID } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { childNames, type ServiceType, servicePorts } from '../../crds/index.ts'
import type { ServiceAudit } from '../audit.ts'
import { findBranch } from '../branches/find.ts'
import { idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import type { CredentialsOwner } from '../databases/credentials.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { disconnected } from '../disconnect.ts'
import { ApiError, badRequest, forbidden, notFound, unavailable } from '../errors.ts'
import { operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { createSlots, mostOfDatabase } from '../sql/limits.ts'
import { requireRunning } from '../sql/target.ts'
import { resultOf } from './mcp-result.ts'
import { mcpRequest, type Outgoing, ragRequest, restRequest } from './outgoing.ts'
import { mcpTry, ragTry, restTry, type TryAnswer, tryAnswer } from './schema.ts'
import { answerSeconds, type Received, SendError, send } from './send.ts'

type Place = {
  path: string
  params: typeof idParameter | typeof branchParameters
  tag: 'databases' | 'branches'
  /** In operation ids. */
  of: '' | 'Branch'
}
const places: readonly Place[] = [
  { path: '/databases/:id', params: idParameter, tag: 'databases', of: '' },
  { path: '/databases/:id/branches/:branch_id', params: branchParameters, tag: 'branches', of: 'Branch' },
]

const limits = `Redirects are not followed. Runs at most ${mostOfDatabase} requests at once for a database, and ${mostOfDatabase} for an account, fewer while others run many; above that, returns 429. Closing the connection cancels the request. Returns 403 if the installation does not allow it, 404 if the database has no such service, 409 if the database does not run, and 503 if the service cannot be reached or sends no response within ${answerSeconds} seconds.`

const about: Record<ServiceType, string> = {
  rest: `Sends a request to the \`rest\` service, from inside the cluster: the allowlist of the service does not apply. ${limits}`,
  mcp: `Calls a tool of the \`mcp\` service with a token of that service, from inside the cluster: the allowlist of the service does not apply. ${limits}`,
  rag: `Asks the \`rag\` service a question, with the sources of the answer, from inside the cluster: the allowlist of the service does not apply. ${limits}`,
}
const summaries: Record<ServiceType, string> = {
  rest: 'Send a request to the REST service',
  mcp: 'Call a tool of the MCP service',
  rag: 'Ask the RAG service a question',
}

const querystring = z.strictObject({})

export function addTries(app: App, context: ApiContext, isEnabled: boolean): void {
  const run = createRunner(context, isEnabled)
  for (const { path, params, tag, of } of places) {
    const documentation = (type: ServiceType) => ({
      ...{ operationId: `try${of}${type[0]?.toUpperCase()}${type.slice(1)}`, tag, summary: summaries[type] },
      description: about[type],
      success: { status: 200 as const, description: "The service's response.", shape: tryAnswer },
      errors: [400, 404, 409] as const,
    })
    const rest = operation(documentation('rest'), { params, querystring, body: restTry })
    app.post(`${path}/services/rest/try`, { schema: rest }, (request, reply) =>
      run({ request, reply, params: request.params }, 'rest', async () => ({
        outgoing: restRequest(request.body, request.ip),
        record: { method: request.body.method },
      })),
    )
    const mcp = operation(documentation('mcp'), { params, querystring, body: mcpTry })
    app.post(`${path}/services/mcp/try`, { schema: mcp }, (request, reply) =>
      run({ request, reply, params: request.params }, 'mcp', async owner => {
        const id = randomUUID()
        const token = await tokenOf(context, owner)
        return {
          outgoing: mcpRequest(request.body, { address: request.ip, token, id }),
          record: { tool: request.body.tool },
          bodyOf: text => resultOf(text, id),
        }
      }),
    )
    const rag = operation(documentation('rag'), { params, querystring, body: ragTry })
    app.post(`${path}/services/rag/try`, { schema: rag }, (request, reply) =>
      run({ request, reply, params: request.params }, 'rag', async () => ({
        outgoing: ragRequest(request.body, request.ip),
        record: { pipeline: request.body.pipeline },
      })),
    )
  }
}

/** @throws ApiError 503 */
async function tokenOf({ serviceSecrets }: ApiContext, owner: CredentialsOwner): Promise<string> {
  const services = await serviceSecrets.known(owner)
  const service = services.find(({ config }) => config.serviceType === 'mcp')
  const token = (service?.keys.init_tokens ?? service?.token)?.split(',')[0]?.trim()
  if (!token) throw unavailable('the token of the service does not exist yet: retry')
  return token
}

type Call = { request: FastifyRequest; reply: FastifyReply; params: z.output<Place['params']> }
type Prepared = {
  outgoing: Outgoing
  record: Pick<ServiceAudit, 'method' | 'tool' | 'pipeline'>
  /** JSON to return in place of the service's body; undefined: the body itself. */
  bodyOf?: (text: string) => string | undefined
}
type Prepare = (owner: CredentialsOwner) => Promise<Prepared>

function createRunner(context: ApiContext, isEnabled: boolean) {
  const { cluster, caches, audit, resolve } = context
  const slots = createSlots('requests to services')

  /** @throws ApiError 404, 409 */
  async function ownerOf({ request, params }: Call, type: ServiceType): Promise<CredentialsOwner> {
    const { namespace } = accountOf(request)
    const owner =
      'branch_id' in params
        ? await findBranch({ cluster, caches }, namespace, params)
        : await findDatabase({ cluster, caches }, namespace, params.id)
    if (!owner.spec.services.some(({ serviceType }) => serviceType === type)) throw notFound(`${type} service`)
    requireRunning(owner)
    return owner
  }

  return async (call: Call, type: ServiceType, prepare: Prepare): Promise<TryAnswer> => {
    const { request, reply } = call
    if (!isEnabled)
      throw forbidden('requests to services through the API are disabled in this installation (api.sql.enabled)')
    if (request.headers['idempotency-key'] !== undefined)
      throw badRequest('Idempotency-Key: not supported here; a repeated request is sent again')
    const owner = await ownerOf(call, type)
    const { outgoing, record, bodyOf } = await prepare(owner)
    const [id, namespace] = [idOf(owner) ?? '', owner.metadata.namespace ?? '']
    const service = childNames.serviceAddress(id, type)
    const address = resolve({ namespace, service, port: servicePorts[type] })
    if (address === undefined) throw unavailable(`${type} does not run now: read its state, then retry`)
    const owned = owner.kind === 'Branch' ? { database_id: owner.spec.databaseId, branch_id: id } : { database_id: id }
    const entry: ServiceAudit = { ...owned, type, ...record }
    const release = slots.take(namespace, id, mostOfDatabase)
    let startedAt: number | undefined
    try {
      const onConnected = () => {
        startedAt = performance.now()
        // Before anything is sent, so that a crash of the API hides nothing.
        audit.done(request, { status: 200, service: entry })
      }
      const received = await send({ address, outgoing, signal: disconnected(reply), onConnected })
      const milliseconds = Math.round(performance.now() - (startedAt ?? 0))
      audit.also(request, { status: 200, service: { ...entry, result: 'answered', status: received.status } })
      reply.header('cache-control', 'no-store')
      return { ...shown(received, bodyOf), milliseconds }
    } catch (error) {
      if (!(error instanceof SendError)) throw error
      const refusal = refusalOf(type, error)
      const result = error.kind === 'canceled' ? 'canceled' : 'failed'
      if (startedAt !== undefined) audit.also(request, { status: refusal.status, service: { ...entry, result } })
      throw refusal
    } finally {
      release()
    }
  }
}

function shown(
  { status, contentType, text, isCut }: Received,
  bodyOf: Prepared['bodyOf'],
): Omit<TryAnswer, 'milliseconds'> {
  const result = isCut ? undefined : bodyOf?.(text)
  if (result !== undefined) return { status, content_type: 'application/json', body: result, truncated: false }
  return { status, ...(contentType === undefined ? {} : { content_type: contentType }), body: text, truncated: isCut }
}

function refusalOf(type: ServiceType, error: SendError): ApiError {
  switch (error.kind) {
    case 'canceled':
      // No client reads it. The status is for the access log.
      return new ApiError(499, 'the client disconnected')
    case 'silent':
      return unavailable(
        `${type} cannot be reached from the API: retry. If this continues, check that the service's NetworkPolicy admits the API: upgrade the operator, and set api.sql.enabled of the chart`,
        error,
      )
    case 'refused':
      return unavailable(`${type} does not accept connections now: read its state, then retry`, error)
    // The request may have been carried out, so no Retry-After.
    case 'broken':
      return new ApiError(503, `${type} closed the connection without a complete response: read its log`, {
        cause: error,
      })
    case 'late':
      return new ApiError(503, `${type} sent no response within ${answerSeconds} seconds: read its log`, {
        cause: error,
      })
  }
}
