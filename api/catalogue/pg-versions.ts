/** `/pg-versions`: the Postgres majors on offer, newest first. */
import { z } from 'zod'
import type { PgVersion } from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import type { App } from '../context.ts'
import { operation } from '../operation.ts'
import { pgVersionShape } from './schema.ts'

/** `offered`: newest first; a database that names no version gets the first. */
export function addPgVersions(app: App, offered: readonly PgVersion[]): void {
  const answer = JSON.stringify(offered.map((version, index) => ({ version, default: index === 0 })))
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
  app.get('/pg-versions', { schema }, async (_request, reply) => sendJson(reply, answer))
}
