/**
 * Where the API server is and how to authenticate there, as kubectl and client-go find it. A kubeconfig is read by a library whose
 * client comes along with it, 17 MB of source that a process keeps: what runs in a pod does without.
 */
import type { RequestOptions } from 'node:https'
import { ClusterError } from '../errors.ts'
import { findServiceAccount } from './service-account.ts'

export type Access = {
  /** The API server's address, without a slash at its end. */
  server: string
  /** Whether requests go through a proxy, so that only the agent in their options leads there. */
  proxied: boolean
  /**
   * The TLS and authentication options of one request. Certificates are read anew each time, a token file once a
   * minute, an exec plugin is run again when its credential has run out.
   * @throws ClusterError `Unavailable` where a file or a plugin fails
   */
  authenticate(): Promise<RequestOptions>
}

/**
 * The access that a kubeconfig file gives (its current context); without a file: the pod's own service account, else
 * what KUBECONFIG names, else ~/.kube/config.
 * @throws Error where there is none, or where it is malformed
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
  // The library answers a missing configuration with this made-up one.
  if (cluster === null || cluster.server === 'http://localhost:8080')
    throw new Error(
      `no cluster to connect to: ${path ?? 'this is no pod, and KUBECONFIG and ~/.kube/config'} name no current context`,
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
