/** The gateway's figures, in a prom-client registry. */
import { Counter, Registry } from 'prom-client'
import { addGauge } from '../server/metrics.ts'

/** What became of a connection. `silent`: the client said nothing in time, or closed before it did. */
export type Outcome = 'allowed' | 'denied' | 'unavailable' | 'too-many' | 'too-many-logins' | 'out-of-touch' | 'silent'

export type GatewayMetrics = {
  registry: Registry
  count(outcome: Outcome): void
}

export function createMetrics(options: {
  registry?: Registry | undefined
  /** Absent where another process carries them, and counts them itself. */
  connections?: () => number
  /** As connections: those that have not logged in. */
  logins?: () => { underway: number; waiting: number }
  routes: () => number
  admitting: () => boolean
}): GatewayMetrics {
  const registry = options.registry ?? new Registry()
  const registers = [registry]
  const outcomes = new Counter({
    name: 'espalier_gateway_connections_total',
    help: 'Connections accepted, by what became of them.',
    labelNames: ['outcome'],
    registers,
  })
  const gauge = (name: string, help: string, read: () => number) => addGauge(registry, name, help, read)
  if (options.connections !== undefined)
    gauge('espalier_gateway_open_connections', 'Connections joined to their target now.', options.connections)
  const { logins } = options
  if (logins !== undefined) {
    const [name, help] = ['espalier_gateway_logins', 'Connections that log in now.']
    gauge(name, help, () => logins().underway)
    gauge(`${name}_waiting`, 'Connections that wait to log in, or have said nothing yet.', () => logins().waiting)
  }
  gauge('espalier_gateway_routes', 'Routes in force.', options.routes)
  gauge('espalier_gateway_admitting', '1 while rules are known to hold; 0: new connections are refused.', () =>
    options.admitting() ? 1 : 0,
  )
  return { registry, count: outcome => outcomes.inc({ outcome }) }
}
