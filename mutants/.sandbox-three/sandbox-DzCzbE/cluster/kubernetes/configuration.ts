/** Where the API server is and how to authenticate there, as kubectl and client-go find it. */
// @ts-nocheck

import { accessSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { KubeConfig } from '@kubernetes/client-node'
import { ClusterError } from '../errors.ts'

const serviceAccountToken = '/var/run/secrets/kubernetes.io/serviceaccount/token'

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
export function findAccess(path?: string): Access {
  const config = new KubeConfig()
  if (path !== undefined) config.loadFromFile(path)
  else if (inCluster()) config.loadFromCluster()
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
    authenticate: async () => {
      const options: RequestOptions = {}
      try {
        await config.applyToHTTPSOptions(options)
      } catch (error) {
        throw new ClusterError('Unavailable', 'the credentials for the API server cannot be read', { cause: error })
      }
      return options
    },
  }
}

function inCluster(): boolean {
  if (process.env.KUBERNETES_SERVICE_HOST === undefined) return false
  try {
    accessSync(serviceAccountToken)
    return true
  } catch {
    return false
  }
}
