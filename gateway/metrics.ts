/** The gateway's metrics, in a prom-client registry. */
import { Counter, Gauge, Registry } from 'prom-client'
import { addGauge } from '../server/metrics.ts'
import type { LoginCount, LoginCounts } from './logins.ts'

/** The result of a connection. `silent`: the client sent nothing in time, or closed without sending anything. */
export type Outcome = 'allowed' | 'denied' | 'unavailable' | 'too-many' | 'too-many-logins' | 'out-of-touch' | 'silent'

export type GatewayMetrics = {
  registry: Registry
  count(outcome: Outcome): void
}

/** Connections that have not logged in. */
type LoginSource = {
  /** Undefined if the data plane cannot be queried now. */
  count(): Promise<LoginCounts | undefined>
  /** The label of the route on a port. */
  labelOf(port: number): string | undefined
}

export function createMetrics(options: {
  registry?: Registry | undefined
  /** Absent if another process carries and counts the connections. */
  connections?: () => number
  logins?: LoginSource
  routes: () => number
  admitting: () => boolean
}): GatewayMetrics {
  const registry = options.registry ?? new Registry()
  const registers = [registry]
  const outcomes = new Counter({
    name: 'espalier_gateway_connections_total',
    help: 'Connections accepted, by result.',
    labelNames: ['outcome'],
    registers,
  })
  const gauge = (name: string, help: string, read: () => number) => addGauge(registry, name, help, read)
  if (options.connections !== undefined)
    gauge('espalier_gateway_open_connections', 'Connections joined to their target now.', options.connections)
  if (options.logins !== undefined) loginGauges(options.logins, registers)
  gauge('espalier_gateway_routes', 'Applied routes.', options.routes)
  gauge('espalier_gateway_admitting', '1 while rules are known to be current; 0: new connections are refused.', () =>
    options.admitting() ? 1 : 0,
  )
  return { registry, count: outcome => outcomes.inc({ outcome }) }
}

const loginTexts: Record<keyof LoginCount, { suffix: string; help: string }> = {
  underway: { suffix: '', help: 'Connections that are logging in, each with a slot of its database' },
  waiting: { suffix: '_waiting', help: 'Connections that wait to log in, or have sent nothing yet' },
}

/** Gauges in total, and for each database with such connections. The total is NaN if it is unknown. */
function loginGauges({ count, labelOf }: LoginSource, registers: Registry[]): void {
  let pending: Promise<LoginCounts | undefined> | undefined
  /** Makes one query for all gauges of a page, and for all pages that are requested meanwhile. */
  const readCounts = (): Promise<LoginCounts | undefined> => {
    pending ??= count()
      // A page without these gauges is better than no page.
      .catch(() => undefined)
      .finally(() => {
        pending = undefined
      })
    return pending
  }
  for (const which of ['underway', 'waiting'] as const) {
    const { suffix, help } = loginTexts[which]
    new Gauge({
      name: `espalier_gateway_logins${suffix}`,
      help: `${help}.`,
      registers,
      async collect() {
        const counts = await readCounts()
        this.set(counts === undefined ? Number.NaN : [...counts.values()].reduce((sum, each) => sum + each[which], 0))
      },
    })
    new Gauge({
      name: `espalier_gateway_database_logins${suffix}`,
      help: `${help}, for each database that has any.`,
      labelNames: ['database'],
      registers,
      async collect() {
        const counts = (await readCounts()) ?? new Map()
        this.reset()
        for (const [port, each] of counts)
          if (each[which] > 0) this.inc({ database: labelOf(port) ?? `port ${port}` }, each[which])
      },
    })
  }
}
