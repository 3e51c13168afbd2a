/** `/pg-versions`: the Postgres majors on offer, newest first. */
import { z } from 'zod'
import { defaultPgVersion, pgVersions } from '../../crds/index.ts'
import { sendJson } from '../answers.ts'
import type { App } from '../context.ts'
import { operation } from '../operation.ts'
import { pgVersionShape } from '../shapes/catalog.ts'

const answer = JSON.stringify(pgVersions.map(version => ({ version, default: version === defaultPgVersion })))

export function addPgVersions(app: App): void {
  const schema = operation(
    {
      operationId: 'listPgVersions',
      tag: 'catalog',
      summary: 'List Postgres versions',
      success: { status: 200, description: 'The versions, newest first', shape: z.array(pgVersionShape) },
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/pg-versions', { schema }, async (_request, reply) => sendJson(reply, answer))
}
