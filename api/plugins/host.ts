/** A request of HTTP/1.1 names a host (RFC 9112, section 3.2). Node refuses one that does not without a word of why. */
import type { App } from '../context.ts'
import { badRequest } from '../errors.ts'

export function useHost(app: App): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    done(raw.httpVersion === '1.1' && raw.headers.host === undefined ? badRequest('Host: is required') : undefined)
  })
}
