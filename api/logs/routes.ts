/** `/databases/{id}/logs`, and the same for a branch: the log of its Postgres. */

import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { childNames, memberOfClaim, type ServiceType } from '../../crds/index.ts'
import type { LogEntry } from '../../instance/log/entry.ts'
import type { Instance } from '../agents.ts'
import { sendJson } from '../answers.ts'
import { atMost } from '../at-once.ts'
import { findBranch } from '../branches/find.ts'
import { idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { badRequest } from '../errors.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { merged } from './merge.ts'
import { readPrinted, type Window } from './printed.ts'
import { logsQuery, logsShape } from './schema.ts'
import { readService } from './service.ts'
import { readVolumeLog, type VolumeLog } from './volume-log.ts'

/** Concurrent reads of logs, each of some megabytes at most. */
const mostAtOnce = 4

const about =
  "Returns the log of Postgres and, before it, the output of the volume's preparation, newest first. It is available while Postgres does not respond and after a restart. A database that is not running has none. The log is stored on the volume and uses up to a fiftieth of its size (16 to 256 MiB); the oldest entries are deleted first. A branch, or a database created from a backup, starts its own log. The oldest entries of a very long log may not be returned at once: request an earlier `end_time`. Possible passwords are removed from statements. With `service`, returns the output of that service's servers, as far as the cluster keeps it."

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
    const found = await findDatabase({ cluster, caches }, namespace, request.params.id)
    const logs = await read(found, request.query)
    return send(reply, request.query, logs)
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring: logsQuery })
  app.get('/databases/:id/branches/:branch_id/logs', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findBranch({ cluster, caches }, namespace, request.params)
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

/** A database that is not running has no agent, so it is not called. */
const isStopped = (owner: Owner): boolean => owner.kind === 'ManagedDatabase' && owner.spec.suspended

/** Limits concurrent reads of logs, in total and per account. @throws ApiError 429 */
function createReader({ cluster, agents, logger }: Sources): (owner: Owner, query: Query) => Promise<LogEntry[]> {
  const bounded = atMost(mostAtOnce)
  /** An older pod keeps no log on its volume, and an agent may be unreachable: the pod's output is still available. */
  async function volumeLogOf(owner: Owner, instance: Instance, window: Window): Promise<VolumeLog> {
    const none = { entries: [], isWhole: true }
    if (isStopped(owner)) return none
    try {
      return await readVolumeLog(agents, instance, window)
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
        throw badRequest(`service: the database has no ${service} service`)
      return bounded(namespace, () => readService(cluster, { id, namespace }, service, windowOf(query)))
    }
    return bounded(namespace, async () => {
      const window = windowOf(query)
      const { incarnation = 1, volume } = owner.status ?? {}
      const pod = { namespace, name: childNames.pod(id, incarnation, memberOfClaim(volume?.claim)) }
      const [volumeLog, printed] = await Promise.all([
        volumeLogOf(owner, { id, namespace }, window),
        readPrinted(cluster, pod, window),
      ])
      return merged(volumeLog, printed, window.maxLines)
    })
  }
}

const msOf = (time: string | undefined): number | undefined => (time === undefined ? undefined : Date.parse(time))

const windowOf = ({ max_lines, start_time, end_time }: Query): Window => ({
  maxLines: max_lines,
  startMs: msOf(start_time),
  endMs: msOf(end_time),
})
