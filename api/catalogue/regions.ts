/** `/regions`: the available regions. */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { operation } from '../operation.ts'
import { regionShape } from './schema.ts'

export function addRegions(app: App, { caches }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listRegions',
      tag: 'catalog',
      summary: 'List regions',
      success: { status: 200, description: 'The regions, ordered by name.', shape: z.array(regionShape) },
      errors: [400],
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/regions', { schema }, async (_request, reply) => {
    const names = caches.Region.list().map(region => region.metadata.name)
    return sendJson(reply, JSON.stringify(names.sort().map(region => ({ region }))))
  })
}
