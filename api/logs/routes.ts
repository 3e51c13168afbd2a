/** `/databases/{id}/logs`, and the same of a branch: what its Postgres has written. */
import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { childNames, memberOfClaim, type ServiceType } from '../../crds/index.ts'
import type { LogEntry } from '../../instance/log/entry.ts'
import type { Instance } from '../agents.ts'
import { sendJson } from '../answers.ts'
import { atMost } from '../at-once.ts'
import { findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { branchParameters } from '../databases/schema.ts'
import { badRequest, notFound } from '../errors.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { type Kept, readKept } from './kept.ts'
import { merged } from './merge.ts'
import { readPrinted, type Window } from './printed.ts'
import { logsQuery, logsShape } from './schema.ts'
import { readService } from './service.ts'

/** So many logs are read at once, each of some megabytes at most. */
const mostAtOnce = 4

const about =
  'Newest first: what Postgres has written, and before it what prepared its volume. It is there also while Postgres does not answer, and after a restart; where no Postgres runs there is none. It stands on the volume, where it takes up to a fiftieth of the room (16 to 256 MiB), and what is oldest goes first; a branch and a database made from a backup begin a log of their own. Of a log that is very long, what is oldest may not be reached at once: ask for an earlier `end_time`. What may be a password is left out of statements. With `service`, what the servers of that service have printed, as far as the cluster keeps it.'

const documentation = (what: Pick<Documentation, 'operationId' | 'tag' | 'summary'>): Documentation => ({
  ...what,
  description: about,
  success: { status: 200, description: 'The entries.', shape: logsShape, headers: ['X-Applied-Limit'] },
  errors: [400, 404],
})

const ofDatabase = documentation({
  operationId: 'getDatabaseLogs',
  tag: 'databases',
  summary: 'Read the log of a database',
})
const ofBranch = documentation({ operationId: 'getBranchLogs', tag: 'branches', summary: 'Read the log of a branch' })

export function addLogs(app: App, { cluster, caches, agents }: ApiContext): void {
  const read = createReader({ cluster, agents, logger: app.log })

  const database = operation(ofDatabase, { params: idParameter, querystring: logsQuery })
  app.get('/databases/:id/logs', { schema: database }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, request.params.id)
    if (found === undefined) throw notFound('database')
    const logs = await read(found, request.query)
    return send(reply, request.query, logs)
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring: logsQuery })
  app.get('/databases/:id/branches/:branch_id/logs', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { id, branch_id: branchId } = request.params
    const found = await findOwned(cluster, caches.Branch, 'Branch', namespace, branchId)
    if (found === undefined || found.spec.databaseId !== id) throw notFound('branch')
    const logs = await read(found, request.query)
    return send(reply, request.query, logs)
  })
}

function send(reply: FastifyReply, { max_lines }: Query, logs: LogEntry[]): FastifyReply {
  reply.headers({ 'cache-control': 'no-store', 'X-Applied-Limit': String(max_lines) })
  return sendJson(reply, JSON.stringify({ logs }))
}

type Query = {
  max_lines: number
  service?: ServiceType | undefined
  start_time?: string | undefined
  end_time?: string | undefined
}
type Owner = Kinds['ManagedDatabase'] | Kinds['Branch']

type Sources = Pick<ApiContext, 'cluster' | 'agents'> & { logger: FastifyBaseLogger }

/** What does not run has no agent, and nobody waits for it to answer. */
const isStopped = (owner: Owner): boolean => owner.kind === 'ManagedDatabase' && owner.spec.suspended

/** Reads so many logs at once, and no more of one account. @throws ApiError 429 */
function createReader({ cluster, agents, logger }: Sources): (owner: Owner, query: Query) => Promise<LogEntry[]> {
  const bounded = atMost(mostAtOnce)
  /** A pod from before keeps no log on its volume, and an agent may be away: what the pod has printed is there all the same. */
  async function keptOf(owner: Owner, instance: Instance, window: Window): Promise<Kept> {
    const none = { entries: [], isWhole: true }
    if (isStopped(owner)) return none
    try {
      return await readKept(agents, instance, window)
    } catch (error) {
      logger.info({ err: error, database: owner.metadata.name }, 'the log on the volume cannot be read')
      return none
    }
  }
  return (owner, query) => {
    const [id, namespace] = [idOf(owner) ?? '', owner.metadata.namespace ?? '']
    const { service } = query
    if (service !== undefined) {
      if (!owner.spec.services.some(({ serviceType }) => serviceType === service))
        throw badRequest(`service: there is no ${service} service here`)
      return bounded(namespace, () => readService(cluster, { id, namespace }, service, windowOf(query)))
    }
    return bounded(namespace, async () => {
      const window = windowOf(query)
      const { incarnation = 1, volume } = owner.status ?? {}
      const pod = { namespace, name: childNames.pod(id, incarnation, memberOfClaim(volume?.claim)) }
      const [kept, printed] = await Promise.all([
        keptOf(owner, { id, namespace }, window),
        readPrinted(cluster, pod, window),
      ])
      return merged(kept, printed, window.maxLines)
    })
  }
}

const msOf = (time: string | undefined): number | undefined => (time === undefined ? undefined : Date.parse(time))

const windowOf = ({ max_lines, start_time, end_time }: Query): Window => ({
  maxLines: max_lines,
  startMs: msOf(start_time),
  endMs: msOf(end_time),
})
