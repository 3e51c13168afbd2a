/** Where a server listens, and how it ends. */
import cluster from 'node:cluster'
import { chmodSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The path of a Unix socket with its mode, or a host and a port, which other processes may share (`reusePort`). */
export type ListenAddress =
  | { readonly path: string; readonly mode: number }
  | { readonly host: string; readonly port: number; readonly reusePort?: boolean }

/** Any address of a kind by a short name, as PostgREST has them: `*` and those with `*` take what they can, `!` that kind only. */
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
 * Listens, and says where: with port 0 on a free one.
 * @throws what Node's server fails with: EADDRINUSE above all, ENOTSUP where the system has no SO_REUSEPORT
 */
export async function listen(server: Server, at: ListenAddress): Promise<AddressInfo | string> {
  // What an earlier run left; a socket that is in use cannot be told from it, as with PostgREST. Workers share what the first process binds.
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
  if (address === null) throw new Error('the server does not listen')
  return address
}

/** Ends a server: idle connections at once, the others when their request is answered or the time is up. */
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
