/** X-Request-Id: the client's own id if it is valid, otherwise a new id. Every response and every log line has it. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { App } from '../context.ts'
import { saneRequestId } from '../headers.ts'

export const newRequestId = (request: IncomingMessage): string =>
  saneRequestId(request.headers['x-request-id']) ?? randomUUID()

export function useRequestId(app: App): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
}
