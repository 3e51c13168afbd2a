/** `/databases/{id}/metrics`, and the same of a branch: what its Postgres was like. */
import type { FastifyBaseLogger } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase, visiblePhase } from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import { atMost } from '../at-once.ts'
import { findOwned, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { branchParameters } from '../databases/schema.ts'
import { type ApiError, conflict, notFound, retryAfter, unavailable } from '../errors.ts'
import { type Documentation, operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { idParameter } from '../schemas/common.ts'
import { metricsQuery, metricsShape } from './schema.ts'
import { type Series, seriesOf } from './series.ts'
import type { SampleSource } from './source.ts'
import { windowOf } from './window.ts'

/** So many are asked for at once. */
const mostAtOnce = 8

const about =
  'Samples are taken every 30 seconds beside Postgres, and kept for two hours, or for as long as the Prometheus of the installation keeps them. A restart of Postgres begins anew where there is no Prometheus. What is, is the mean over the interval; what grows is told by how much a second. A window of which nothing is known has series without rows; that nothing can be told at present is an error.'

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
type Query = { interval: string; start_time?: string | undefined; end_time?: string | undefined }

export function addMetrics(app: App, { cluster, caches, samples, now }: ApiContext): void {
  const read = createReader(samples, now, app.log)

  const database = operation(ofDatabase, { params: idParameter, querystring: metricsQuery })
  app.get('/databases/:id/metrics', { schema: database }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, request.params.id)
    if (found === undefined) throw notFound('database')
    const series = await read(found, request.query)
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify({ series }))
  })

  const branch = operation(ofBranch, { params: branchParameters, querystring: metricsQuery })
  app.get('/databases/:id/branches/:branch_id/metrics', { schema: branch }, async (request, reply) => {
    const { namespace } = accountOf(request)
    const { id, branch_id: branchId } = request.params
    const found = await findOwned(cluster, caches.Branch, 'Branch', namespace, branchId)
    if (found === undefined || found.spec.databaseId !== id) throw notFound('branch')
    const series = await read(found, request.query)
    return sendJson(reply.header('cache-control', 'no-store'), JSON.stringify({ series }))
  })
}

/** Reads so many at once, and no more. @throws ApiError 409, 429, 503 */
function createReader(
  samples: SampleSource,
  now: () => number,
  logger: FastifyBaseLogger,
): (owner: Owner, query: Query) => Promise<Series[]> {
  const bounded = atMost(mostAtOnce)
  return async (owner, query) => {
    const window = windowOf(query, now())
    const [id, namespace] = [idOf(owner) ?? '', owner.metadata.namespace ?? '']
    return bounded(namespace, async () => {
      try {
        const found = await samples.read({ id, namespace }, window)
        return seriesOf(found, window)
      } catch (error) {
        logger.info({ err: error, database: owner.metadata.name }, 'metrics cannot be read')
        throw (
          (samples.isAgent && awaitsAgent(owner)) ||
          unavailable('the metrics cannot be read at present: try again', error)
        )
      }
    })
  }
}

/** Who waits finds it running. */
const comesToRun: readonly string[] = ['creating', 'restoring', 'resuming']

/** What does not run has nothing to measure, and a pod from before there was an agent waits for its restart. */
function awaitsAgent(owner: Owner): ApiError | undefined {
  const what = owner.kind === 'Branch' ? 'branch' : 'database'
  const phase = owner.kind === 'Branch' ? branchPhase(owner) : visiblePhase(owner)
  if (phase !== 'available' && phase !== 'degraded' && phase !== 'modifying')
    return conflict(
      `the ${what} is ${phase}: metrics are of a Postgres that runs`,
      comesToRun.includes(phase) ? retryAfter.busy : undefined,
    )
  const isOlder = owner.status?.pendingRestart?.some(({ reason }) => reason === 'PodTemplate' || reason === 'Image')
  if (!isOlder) return undefined
  return conflict(`the ${what} may have been started before metrics were sampled: they begin with its next restart`)
}
