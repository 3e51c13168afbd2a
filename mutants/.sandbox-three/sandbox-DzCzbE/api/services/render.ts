/** Services of a database or branch as the API gives them. Secrets of a service are not part of its resource. */
// @ts-nocheck

import type { z } from 'zod'
import type { ManagedDatabaseStatus, serviceConfig } from '../../crds/index.ts'
import { renderAllowlist } from '../databases/allowlist.ts'
import { type ServiceShape, serviceShape } from './schema.ts'

type ServiceConfig = z.output<typeof serviceConfig>
type ServiceStatus = NonNullable<ManagedDatabaseStatus['services']>[number]

const snake = (name: string): string => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** The value with every object key in snake case. For configurations, whose keys are all ours. */
function snakeCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCased)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snake(key), snakeCased(inner)]))
}

/** `domain`: the database's; it becomes the services' public domain once a service has an address. */
export function renderServices(
  configs: readonly ServiceConfig[],
  statuses: readonly ServiceStatus[] = [],
  domain: string | undefined,
): ServiceShape[] {
  return configs.map(config => {
    const status = statuses.find(candidate => candidate.serviceId === config.serviceId)
    // The names differ in case only; the schema makes the types of it again.
    return serviceShape.parse({
      service_type: config.serviceType,
      service_id: config.serviceId,
      host_ids: config.hostIds,
      target_nodes: config.targetNodes,
      ip_allowlist: renderAllowlist(config.ipAllowlist),
      mcp_config: snakeCased(config.mcp),
      rest_config: snakeCased(config.rest),
      rag_config: snakeCased(config.rag),
      port: status?.port,
      public_domain: status?.uri === undefined ? null : domain,
      uri: status?.uri,
      state: status?.state ?? 'pending',
    })
  })
}
