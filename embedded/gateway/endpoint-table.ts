/**
 * The endpoints of Services, as last reported by the runtime. A login reads this table without asking another thread.
 */
import type { Resolve } from '../../gateway/connections.ts'
import type { Endpoints } from '../runtime/index.ts'

export function createEndpointTable(): { put(changes: Endpoints[]): void; resolve: Resolve } {
  const services = new Map<string, Endpoints['ports']>()
  let nextIndex = 0
  return {
    put: changes => {
      for (const { namespace, service, ports } of changes) {
        if (ports.length === 0) services.delete(`${namespace}/${service}`)
        else services.set(`${namespace}/${service}`, ports)
      }
    },
    resolve: ({ namespace, service, port }) => {
      const ports = services.get(`${namespace}/${service}`)
      const addresses = ports?.find(candidate => candidate.port === port)?.addresses ?? []
      nextIndex = (nextIndex + 1) % Number.MAX_SAFE_INTEGER
      return addresses[nextIndex % addresses.length]
    },
  }
}
