/** The common parts of the pods of all services. */
import type { DatabaseRole } from '../../../sealing/credentials.ts'
import { configurationDirectory, type Provider, type ServiceContainer, type ServiceInput } from './types.ts'

/** The CA certificate of Postgres, mounted beside the configuration. */
export const authorityFile = 'authority.crt'
export const fileAt = (name: string): string => `${configurationDirectory}/${name}`

/** The path returns 200 after the server has read from the database over its own protocol. */
export const selfCheckPath = '/ready/database'

/** The variables for the server's samples, which the API requests (services/samples). */
export const samplesVariables = (port: number): Record<string, string> => ({
  ESPALIER_SAMPLES_ADDRESS: `$(POD_IP):${port}`,
})

/** The common properties of the containers of all services. */
type Described = Pick<ServiceContainer, 'name' | 'args' | 'environment' | 'ports' | 'resources'> & {
  /** The path that reports whether the server has answered a real request. */
  ready: { port: number; path: string }
  readiness: { port: number; path: string }
}

/**
 * The server has two minutes to start, because the database may be starting, too. The rollout has an earlier deadline.
 */
export const container = ({ ready, readiness, ...same }: Described): ServiceContainer => ({
  ...same,
  startupProbe: {
    httpGet: ready,
    ...{ periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 120 },
  },
  readinessProbe: { httpGet: readiness, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 3 },
})

/** The passwords of a role, newest first, one per line. The servers read this format. */
export const passwordsOf = ({ database }: ServiceInput, role: DatabaseRole): string =>
  database.passwords[role].join('\n')

/** The newest password. Only this one is in the digest. */
export const newest = ({ database }: ServiceInput, role: DatabaseRole): string | undefined =>
  database.passwords[role][0]

/** `base_url`, if the installation configures another address than the provider's own. */
export const baseUrlOf = ({ settings }: ServiceInput, provider: Provider): { base_url?: string } => {
  const baseUrl = settings.baseUrls[provider]
  return baseUrl === undefined ? {} : { base_url: baseUrl }
}

/** The host name with which clients connect to the service. */
export const hostOf = ({ publicUrl }: ServiceInput): string | undefined =>
  publicUrl === undefined ? undefined : new URL(publicUrl).hostname
