/**
 * Which pages may reach the server with a browser's help. A page that says whose it is must be of this machine or be allowed. A server that listens on this machine alone is
 * asked for by a name of this machine: any other name leads here by a page's doing (DNS rebinding).
 */
import type { Headers } from '../../http/message.ts'

export type Access = {
  /** As a browser writes them: scheme, host and port. */
  readonly origins: readonly string[]
  /** Whether only names of this machine, and those of the allowed origins, are names of the server. */
  readonly isLocal: boolean
}

const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])

function hostOf(url: string): string | undefined {
  try {
    return new URL(url).hostname
  } catch {
    return undefined
  }
}

export function isAllowedSite({ origin, host }: Headers, { origins, isLocal }: Access): boolean {
  if (origin !== undefined && !origins.includes(origin) && !loopback.has(hostOf(origin) ?? '')) return false
  if (!isLocal || host === undefined) return true
  const name = hostOf(`http://${host}`)
  return name !== undefined && (loopback.has(name) || origins.some(allowed => hostOf(allowed) === name))
}

/** `host`: where the server listens. */
export const isLocalAddress = (host: string): boolean => loopback.has(host) || host === '::1' || host.startsWith('127.')
