/** `/openapi.json`: the API's own description. Clients need no token. */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import type { App } from '../context.ts'
import { operation } from '../operation.ts'

export function addDescription(app: App): void {
  let text = ''
  // Created before the API serves, so that an undocumented route makes the start fail.
  app.addHook('onReady', done => {
    text = JSON.stringify(app.swagger())
    done()
  })
  const schema = operation(
    {
      operationId: 'getOpenapi',
      tag: 'service',
      summary: 'Read this description',
      success: { status: 200, description: 'An OpenAPI 3.1 document.', shape: z.looseObject({}) },
      errors: [400],
      open: true,
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/openapi.json', { schema }, async (_request, reply) => sendJson(reply, text))
}
