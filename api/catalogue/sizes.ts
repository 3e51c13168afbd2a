/** `/sizes`: the available sizes of databases. */
import { z } from 'zod'
import { sendJson, sendRead } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { operation } from '../operation.ts'
import { renderSize } from '../render/others.ts'
import { idParameter } from '../schemas/common.ts'
import { sizeQuery, sizeShape } from './schema.ts'
import { offeredSizes } from './versions.ts'

export function addSizes(app: App, { caches }: ApiContext): void {
  const list = operation(
    {
      operationId: 'listSizes',
      tag: 'catalog',
      summary: 'List available sizes',
      description: 'Returns the newest active version of each size, smallest first.',
      success: { status: 200, description: 'The sizes.', shape: z.array(sizeShape) },
      errors: [400],
    },
    { querystring: sizeQuery },
  )
  app.get('/sizes', { schema: list }, async (request, reply) => {
    const withPricing = request.query.include?.includes('pricing') === true
    const sizes = offeredSizes(caches.Size.list()).map(size => renderSize(size, withPricing))
    return sendJson(reply, JSON.stringify(sizes))
  })

  const read = operation(
    {
      operationId: 'getSize',
      tag: 'catalog',
      summary: 'Read one version of a size',
      description: 'Returns the version in any status: databases keep the version they were created with.',
      success: { status: 200, description: 'The size.', shape: sizeShape, headers: ['ETag'] },
      errors: [400, 404],
      takes: ['If-None-Match'],
      conditional: true,
    },
    { params: idParameter, querystring: sizeQuery },
  )
  app.get('/sizes/:id', { schema: read }, async (request, reply) => {
    const size = caches.Size.list().find(candidate => candidate.spec.id === request.params.id)
    if (size === undefined) throw notFound('size')
    return sendRead(
      request,
      reply,
      JSON.stringify(renderSize(size, request.query.include?.includes('pricing') === true)),
    )
  })
}
