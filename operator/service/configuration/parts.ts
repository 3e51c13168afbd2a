/** What the pods of all services have in common. */
import type { DatabaseRole } from '../../../sealing/credentials.ts'
import { configurationDirectory, type Provider, type ServiceContainer, type ServiceInput } from './types.ts'

/** Mounted beside the configuration: who has signed the certificate of Postgres. */
export const authorityFile = 'authority.crt'
export const fileAt = (name: string): string => `${configurationDirectory}/${name}`

/** A container of the pod without what differs between services. */
type Described = Pick<ServiceContainer, 'name' | 'args' | 'environment' | 'ports' | 'resources'> & {
  /** A command that sends a real request, and ends with 0 once it is answered; or where the server reports that it has answered one. */
  ready: readonly string[] | { port: number; path: string }
  readiness: { port: number; path: string }
}

/** The server has two minutes to start: the database may be starting as well. The rollout's deadline decides before that. */
export const container = ({ ready, readiness, ...same }: Described): ServiceContainer => ({
  ...same,
  startupProbe: {
    ...('path' in ready ? { httpGet: ready } : { exec: ready }),
    ...{ periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 120 },
  },
  readinessProbe: { httpGet: readiness, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 3 },
})

/** Those of a role, newest first, as the servers read them: each on a line of its own. */
export const passwordsOf = ({ database }: ServiceInput, role: DatabaseRole): string =>
  database.passwords[role].join('\n')

/** Of `passwordsOf` what the digest is made of. */
export const newest = ({ database }: ServiceInput, role: DatabaseRole): string | undefined =>
  database.passwords[role][0]

/** `base_url`, where the installation names another than the provider's own. */
export const baseUrlOf = ({ settings }: ServiceInput, provider: Provider): { base_url?: string } => {
  const baseUrl = settings.baseUrls[provider]
  return baseUrl === undefined ? {} : { base_url: baseUrl }
}

/** The name by which clients reach the service. */
export const hostOf = ({ publicUrl }: ServiceInput): string | undefined =>
  publicUrl === undefined ? undefined : new URL(publicUrl).hostname
