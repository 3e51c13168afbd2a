/** Logs one line per answered request at debug level, without the query, which may be private. */
import type { App } from '../context.ts'

export function useAccessLog(app: App): void {
  if (!['trace', 'debug'].includes(app.log.level)) return
  app.addHook('onResponse', (request, reply, done) => {
    const path = request.url.split('?', 1)[0]
    const facts = { method: request.method, path, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }
    request.log.debug(facts, 'answered')
    done()
  })
}
