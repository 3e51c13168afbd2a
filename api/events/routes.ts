/** `/events`: changes of an account's objects as they happen. */
import { z } from 'zod'
import type { ApiContext, App } from '../context.ts'
import type { ApiMetrics } from '../metrics.ts'
import { operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { createEventHub } from './hub.ts'
import { changeShape } from './schema.ts'

export function addEvents(app: App, context: ApiContext, metrics: ApiMetrics): void {
  const hub = createEventHub(context)
  metrics.watchEventStreams(() => hub.size)
  const schema = operation(
    {
      operationId: 'streamEvents',
      tag: 'events',
      summary: 'Follow changes',
      description:
        'A stream of Server-Sent Events. `refresh` is the first event: read what you show. `change` names an object of the account that changed, at most once a second for each object. Another `refresh` means that changes were dropped. The stream ends when the token has to be verified again, after five minutes at most, and when the server stops: connect again. An account can have 50 streams at each replica.',
      success: { status: 200, description: 'The stream.', shape: changeShape, mediaType: 'text/event-stream' },
      errors: [400],
    },
    { querystring: z.strictObject({}) },
  )
  // Without HEAD, because a HEAD of a stream would never end.
  app.get('/events', { schema, exposeHeadRoute: false }, (request, reply) => {
    const { namespace } = accountOf(request)
    const { principal } = request
    const stream = hub.open({
      namespace,
      until: principal?.goodUntil ?? 0,
      isAllowed: () => principal !== undefined && !context.tenants.isRevoked(principal),
    })
    // A proxy must neither store the stream nor buffer its events.
    const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
    return reply.headers(headers).send(stream.readable)
  })
}
