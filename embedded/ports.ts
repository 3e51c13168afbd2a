/** Says before anything is started that a port is taken, in one line. */
import { createServer } from 'node:net'
import { EmbeddedError } from './errors.ts'

/** @throws EmbeddedError where nothing can listen on this port of this host */
export async function assertPortFree(host: string, port: number, variable: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const server = createServer()
    server.once('error', error => {
      const code = 'code' in error ? error.code : undefined
      const why = code === 'EADDRINUSE' ? 'is taken' : `cannot be listened on (${code})`
      reject(new EmbeddedError(`port ${port} of ${host} ${why}: set ${variable} to another one`))
    })
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()))
  })
}
