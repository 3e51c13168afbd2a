/**
 * `/healthz` and `/readyz`: whether the process lives, and whether it should be sent requests. They are routes of the API,
 * not the page of server/health.ts: load balancers ask where clients do, over the same TLS, and errors read as all others.
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
    .strictObject({ status: z.literal('ok').describe('Nothing else: what is not well is an error.') })
    .meta({ description: 'That all is well.', example: { status: 'ok' } }),
)
const ok = JSON.stringify({ status: 'ok' })

export function addHealth(app: App, { caches, stopping, unready, now }: ApiContext): void {
  const live = operation(
    {
      operationId: 'getHealth',
      tag: 'service',
      summary: 'Ask whether the process lives',
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
      summary: 'Ask whether requests can be served',
      description:
        'Answers 503 until the caches are filled, when the cluster has been out of reach for long, and once the process begins to stop.',
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
