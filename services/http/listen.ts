/** Opens a server's listener, and shuts the server down. */
import cluster from 'node:cluster'
import { chmodSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * The path of a Unix socket with its mode, or a host and a port. With `reusePort`, other processes may share the port.
 */
export type ListenAddress =
  | { readonly path: string; readonly mode: number }
  | { readonly host: string; readonly port: number; readonly reusePort?: boolean }

/** Converts PostgREST's short host names. `*` and `*6` accept both address families. `*4`, `!4` and `!6` accept only one. */
function hostOptions(host: string): { host: string; ipv6Only?: boolean } {
  switch (host) {
    case '*4':
    case '!4':
      return { host: '0.0.0.0' }
    case '!6':
      return { host: '::', ipv6Only: true }
    case '*':
    case '*6':
      return { host: '::' }
    default:
      return { host }
  }
}

/**
 * Listens and returns the address. Port 0 selects a free port.
 * @throws Node's listen errors, mainly EADDRINUSE; ENOTSUP if the system has no SO_REUSEPORT
 */
export async function listen(server: Server, at: ListenAddress): Promise<AddressInfo | string> {
  // An earlier run may have left a socket file. Like PostgREST, the server deletes this file, and does not check
  // whether another server uses it. Workers share the first process's socket, and do not delete the file.
  if ('path' in at && cluster.isPrimary) rmSync(at.path, { force: true })
  const options =
    'path' in at ? { path: at.path } : { ...hostOptions(at.host), port: at.port, reusePort: at.reusePort ?? false }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve()
    })
  })
  if ('path' in at) chmodSync(at.path, at.mode)
  const address = server.address()
  if (address === null) throw new Error('the server is not listening')
  return address
}

/** Stops a server. Closes idle connections at once, and other connections after their response or at the timeout. */
export function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}
