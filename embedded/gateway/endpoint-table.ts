/** Where Services are reached, as the runtime last reported it. A login asks this table, and no other thread. */
import type { Resolve } from '../../gateway/connections.ts'
import type { Endpoints } from '../runtime/index.ts'

export function createEndpointTable(): { put(changes: Endpoints[]): void; resolve: Resolve } {
  const services = new Map<string, Endpoints['ports']>()
  let turn = 0
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
      turn = (turn + 1) % Number.MAX_SAFE_INTEGER
      return addresses[turn % addresses.length]
    },
  }
}
