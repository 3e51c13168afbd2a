/** Services of a database or branch in responses, without secrets: those are added to a read of one object. */
import type { z } from 'zod'
import { type ManagedDatabaseStatus, type serviceConfig, servicePorts } from '../../crds/index.ts'
import { renderAllowlist } from '../databases/allowlist.ts'
import { type ServiceShape, serviceShape } from './schema.ts'

type ServiceConfig = z.output<typeof serviceConfig>
type ServiceStatus = NonNullable<ManagedDatabaseStatus['services']>[number]

const snake = (name: string): string => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** The value with every object key in snake case. For configurations, whose keys are all Espalier's. */
function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snake(key), snakeCased(inner)]))
}

type Around = {
  statuses: readonly ServiceStatus[] | undefined
  /** The database's domain; it becomes the services' public domain once a service has an address. */
  domain: string | undefined
  /** The spec has changed since the operator wrote the status. */
  isChanging?: boolean
}

export function renderServices(
  configs: readonly ServiceConfig[],
  { statuses, domain, isChanging = false }: Around,
): ServiceShape[] {
  return configs.map(config => {
    const status = statuses?.find(candidate => candidate.serviceId === config.serviceId)
    // The names differ only in case; the schema restores the types.
    return serviceShape.parse({
      service_type: config.serviceType,
      service_id: config.serviceId,
      host_ids: config.hostIds,
      target_nodes: config.targetNodes,
      ip_allowlist: renderAllowlist(config.ipAllowlist),
      // Also if none was given: a read of one object returns its token.
      mcp_config: config.serviceType === 'mcp' ? snakeCased(config.mcp ?? {}) : undefined,
      rest_config: snakeCased(config.rest),
      rag_config: snakeCased(config.rag),
      port: status?.port ?? servicePorts[config.serviceType],
      public_domain: status?.uri === undefined ? null : (domain ?? null),
      uri: status?.uri,
      state: isChanging ? 'pending' : (status?.state ?? 'pending'),
      message: isChanging ? undefined : status?.message,
    })
  })
}

/** Secrets of one service as a read of one object returns them. */
export type ShownSecrets = {
  embeddingApiKey?: string | undefined
  initTokens?: string | undefined
  initUsers?: string | undefined
  bearerToken?: string | undefined
}

/** The JSON of an object with the secrets of its services, by their ids. */
export function withServiceSecrets(text: string, secrets: ReadonlyMap<string, ShownSecrets>): string {
  const shown: { services: ServiceShape[] } = JSON.parse(text)
  const services = shown.services.map(service => {
    const found = secrets.get(service.service_id ?? '') ?? {}
    const keys = {
      embedding_api_key: found.embeddingApiKey,
      init_tokens: found.initTokens,
      init_users: found.initUsers,
    }
    return {
      ...service,
      ...(service.mcp_config === undefined ? {} : { mcp_config: { ...service.mcp_config, ...keys } }),
      ...(found.bearerToken === undefined ? {} : { bearer_token: found.bearerToken }),
    }
  })
  return JSON.stringify({ ...shown, services })
}
