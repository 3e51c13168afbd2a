/** `/pg-versions`: the available Postgres major versions, newest first. */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { operation } from '../operation.ts'
import { pgVersionShape } from './schema.ts'

/** A database without a version gets the first version of the list. */
export function addPgVersions(app: App, { pgVersions, hasPgvector }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listPgVersions',
      tag: 'catalog',
      summary: 'List Postgres versions',
      success: { status: 200, description: 'The versions, newest first.', shape: z.array(pgVersionShape) },
      errors: [400],
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/pg-versions', { schema }, async (_request, reply) => {
    const answer = await Promise.all(
      pgVersions.map(async (version, index) => ({
        version,
        default: index === 0,
        pgvector: await hasPgvector(version),
      })),
    )
    return sendJson(reply, JSON.stringify(answer))
  })
}
