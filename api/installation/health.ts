/**
 * `/healthz` and `/readyz`: liveness and readiness of the process. They are routes of the API, not of server/health.ts,
 * because load balancers probe the clients' port over the same TLS. Their errors have the usual body.
 */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import { statesOf, unreadiness } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { unavailable } from '../errors.ts'
import { operation } from '../operation.ts'
import { output } from '../schemas/components.ts'

const shape = output(
  'Health',
  z
    .strictObject({ status: z.literal('ok').describe('The only value: any problem is an error.') })
    .meta({ description: 'The process is healthy.', example: { status: 'ok' } }),
)
const ok = JSON.stringify({ status: 'ok' })

export function addHealth(app: App, { caches, stopping, unready, now }: ApiContext): void {
  const live = operation(
    {
      operationId: 'getHealth',
      tag: 'service',
      summary: 'Check liveness',
      success: { status: 200, description: 'It lives.', shape },
      errors: [400],
      open: true,
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/healthz', { schema: live }, async (_request, reply) => sendJson(reply, ok))

  const ready = operation(
    {
      operationId: 'getReadiness',
      tag: 'service',
      summary: 'Check readiness',
      description:
        'Returns 503 until the caches are filled, when the cluster has been unreachable for a long time, and once the process starts to stop.',
      success: { status: 200, description: 'They can.', shape },
      errors: [400, 503],
      open: true,
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/readyz', { schema: ready }, async (_request, reply) => {
    if (stopping.aborted) throw unavailable('stopping')
    const reason = unready() ?? unreadiness(statesOf(caches), now())
    if (reason !== undefined) throw unavailable(reason)
    return sendJson(reply, ok)
  })
}
