/**
 * The access to the API server that every pod has: its service account (Kubernetes, "Accessing the Kubernetes API from
 * a Pod"). Kubernetes rotates the token while the pod runs, so it is read again every minute. The authority is read for
 * each request.
 */
import { readFileSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { isIPv6 } from 'node:net'
import { join } from 'node:path'

const mounted = '/var/run/secrets/kubernetes.io/serviceaccount'
const freshMs = 60_000

type ServiceAccount = { server: string; authenticate(): RequestOptions }

type Context = { environment: NodeJS.ProcessEnv; directory?: string; now?: () => number }

/** Undefined outside of a pod, or in a pod without a token. `authenticate` throws if a file cannot be read. */
export function findServiceAccount(context: Context): ServiceAccount | undefined {
  const { environment, directory = mounted, now = Date.now } = context
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = environment
  const read = (name: string) => readFileSync(join(directory, name), 'utf8').trim()
  let token: { text: string; readAt: number } | undefined
  const freshToken = (): string => {
    if (token === undefined || now() - token.readAt >= freshMs) token = { text: read('token'), readAt: now() }
    return token.text
  }
  if (host === undefined || !isReadable(freshToken)) return undefined
  return {
    server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    authenticate: () => ({ ca: read('ca.crt'), headers: { Authorization: `Bearer ${freshToken()}` } }),
  }
}

function isReadable(read: () => string): boolean {
  try {
    return read() !== ''
  } catch {
    return false
  }
}
