/** `/databases/{id}/metrics`, and the same for a branch: metrics of its Postgres or of one of its services. */

import type { FastifyBaseLogger } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase, type ServiceType, visiblePhase } from '../../crds/index.ts'
import type { Instance } from '../agents.ts'
import { sendJson } from '../answers.ts'
import { atMost } from '../at-once.ts'
import { findBranch } from '../branches/find.ts'
import { idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { findDatabase } from '../databases/find.ts'
import { branchParameters } from '../databases/schema.ts'
import { type ApiError, badRequest, conflict, retryAfter, unavailable } from '../errors.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { metricsQuery, metricsShape } from './schema.ts'
import { seriesOf } from './series.ts'
import { serviceSeriesOf } from './service-series.ts'
import type { Series } from './steps.ts'
import { type Window, windowOf } from './window.ts'

/** The maximum number of concurrent reads. */
const mostAtOnce = 8

const about =
  "Samples are taken every 30 seconds beside Postgres. They are kept for two hours, or as long as the installation's Prometheus keeps them. Without a Prometheus, a restart of Postgres deletes them. A gauge is returned as its mean over the interval, a counter as its rate per second. A window without data returns series without rows; if metrics cannot be read now, the response is an error. With `service`, returns the metrics of a service, summed over its pods. Its pods keep their own samples for two hours: a replaced pod loses its samples, and the series `pods` contains the number of pods in each row. `error_ratio` is the ratio of requests answered with 5xx. The duration of a request ends with its response, or at the start of an event stream."

const documentation = (what: Pick<Documentation, 'operationId' | 'tag' | 'summary'>): Documentation => ({
  ...what,
  description: about,
  success: { status: 200, description: 'The series.', shape: metricsShape },
  errors: [400, 404, 409],
})

const ofDatabase = documentation({
  operationId: 'getDatabaseMetrics',
  tag: 'databases',
  summary: 'Read the metrics of a database',
})
const ofBranch = documentation({
  operationId: 'getBranchMetrics',
  tag: 'branches',
  summary: 'Read the metrics of a branch',
})

type Owner = Kinds['ManagedDatabase'] | Kinds['Branch']
type Query = {
  interval: string
  service?: ServiceType | undefined
  start_time?: string | undefined
  end_time?: string | undefined
}

export function addMetrics(app: App, { cluster, caches, samples, serviceSamples, now }: ApiContext): void {
  const read = createReader({ samples, serviceSamples, now, logger: app.log })

  const database = operation(ofDatabase, { params: idParameter, querystring: metricsQuery })
  app.get('/databases/:id/metrics', { schema: database }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findDatabase({ cluster, caches }, namespace, request.params.id)
    const series = await read(found, request.query)
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify({ series }))
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring: metricsQuery })
  app.get('/databases/:id/branches/:branch_id/metrics', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findBranch({ cluster, caches }, namespace, request.params)
    const series = await read(found, request.query)
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify({ series }))
  })
}

type Sources = Pick<ApiContext, 'samples' | 'serviceSamples' | 'now'> & { logger: FastifyBaseLogger }

const unreadable = (error: unknown): ApiError => unavailable('the metrics cannot be read now: retry', error)

/** Limits concurrent reads. @throws ApiError 400, 409, 429, 503 */
function createReader({ samples, serviceSamples, now, logger }: Sources) {
  const bounded = atMost(mostAtOnce)
  const failed = (owner: Owner, error: unknown) =>
    logger.info({ err: error, database: owner.metadata.name }, 'metrics cannot be read')

  async function ofPostgres(owner: Owner, instance: Instance, window: Window): Promise<Series[]> {
    try {
      return seriesOf(await samples.read(instance, window), window)
    } catch (error) {
      failed(owner, error)
      throw (samples.isAgent && (isDown(owner, 'Postgres') || awaitsAgent(owner))) || unreadable(error)
    }
  }

  async function ofService(owner: Owner, instance: Instance, type: ServiceType, window: Window): Promise<Series[]> {
    const { processes, unread } = await serviceSamples.read(instance, type)
    for (const error of unread) failed(owner, error)
    // A pod may end during the read. Then the metrics are those of the other pods.
    if (processes.length > 0) return serviceSeriesOf(type, processes, window)
    const down = isDown(owner, 'service')
    if (down !== undefined) throw down
    if (unread.length > 0) throw unreadable(unread[0])
    return serviceSeriesOf(type, [], window)
  }

  return async (owner: Owner, query: Query): Promise<Series[]> => {
    const { service } = query
    if (service !== undefined && !owner.spec.services.some(({ serviceType }) => serviceType === service))
      throw badRequest(`service: the database has no ${service} service`)
    const window = windowOf(query, now())
    const instance = { id: idOf(owner) ?? '', namespace: owner.metadata.namespace ?? '' }
    return bounded(instance.namespace, () =>
      service === undefined ? ofPostgres(owner, instance, window) : ofService(owner, instance, service, window),
    )
  }
}

/** States of a database that will be running soon. */
const comesToRun: readonly string[] = ['creating', 'restoring', 'resuming']

const whatOf = (owner: Owner): string => (owner.kind === 'Branch' ? 'branch' : 'database')

/** Returns an error if the database is stopped, because a stopped database has no metrics. */
function isDown(owner: Owner, measured: 'Postgres' | 'service'): ApiError | undefined {
  const phase = owner.kind === 'Branch' ? branchPhase(owner) : visiblePhase(owner)
  if (phase === 'available' || phase === 'degraded' || phase === 'modifying') return undefined
  return conflict(
    `the ${whatOf(owner)} is ${phase}: metrics need a running ${measured}`,
    comesToRun.includes(phase) ? retryAfter.busy : undefined,
  )
}

/** Returns an error if the pod is older than the agent, because the pod needs a restart. */
function awaitsAgent(owner: Owner): ApiError | undefined {
  const isOlder = owner.status?.pendingRestart?.some(({ reason }) => reason === 'PodTemplate' || reason === 'Image')
  if (!isOlder) return undefined
  return conflict(
    `the ${whatOf(owner)} may have been started before metrics were sampled: they start with its next restart`,
  )
}
