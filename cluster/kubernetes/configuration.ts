/**
 * Finds the API server and the credentials, as kubectl and client-go do. A kubeconfig is read by a library that
 * includes its client: 17 MB of source in memory. A pod does not load that library.
 */
import type { RequestOptions } from 'node:https'
import { ClusterError } from '../errors.ts'
import { findServiceAccount } from './service-account.ts'

export type Access = {
  /** The API server's address, without a slash at its end. */
  server: string
  /** Whether requests use a proxy. If so, they work only with the agent in their options. */
  proxied: boolean
  /**
   * The TLS and authentication options of one request. Certificates are read each time, and a token file once a minute.
   * An exec plugin runs again when its credential has expired.
   * @throws ClusterError `Unavailable` if a file or a plugin fails
   */
  authenticate(): Promise<RequestOptions>
}

/**
 * The access that the current context of a kubeconfig file grants. Without a file: the pod's own service account;
 * otherwise the file in KUBECONFIG; otherwise ~/.kube/config.
 * @throws Error if there is none, or if it is malformed
 */
export async function findAccess(path?: string): Promise<Access> {
  const account = path === undefined ? findServiceAccount({ environment: process.env }) : undefined
  if (account === undefined) return accessByFile(path)
  return { server: account.server, proxied: false, authenticate: guarded(async () => account.authenticate()) }
}

const guarded = (authenticate: () => Promise<RequestOptions>) => async (): Promise<RequestOptions> => {
  try {
    return await authenticate()
  } catch (error) {
    throw new ClusterError('Unavailable', 'the credentials for the API server cannot be read', { cause: error })
  }
}

async function accessByFile(path: string | undefined): Promise<Access> {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  if (path !== undefined) config.loadFromFile(path)
  else config.loadFromDefault()
  const cluster = config.getCurrentCluster()
  // The library returns this placeholder for a missing configuration.
  if (cluster === null || cluster.server === 'http://localhost:8080')
    throw new Error(
      `no cluster to connect to: ${path ?? 'this is not a pod, and KUBECONFIG and ~/.kube/config'} have no current context`,
    )
  if (cluster.server.startsWith('http:') && cluster.skipTLSVerify !== true)
    throw new Error(
      `the API server ${cluster.server} is reached without TLS: refused unless insecure-skip-tls-verify is set`,
    )
  return {
    server: cluster.server.replace(/\/+$/, ''),
    proxied: cluster.proxyUrl !== undefined,
    authenticate: guarded(async () => {
      const options: RequestOptions = {}
      await config.applyToHTTPSOptions(options)
      return options
    }),
  }
}
