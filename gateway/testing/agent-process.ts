/**
 * An agent in a separate process, with its own cluster, so that a test can kill it. `fork` starts it with the options
 * as JSON. It receives routes as messages, and answers each with its port once the route is acknowledged.
 */
import pino from 'pino'
import { acknowledged, type Route } from '../../routes/route.ts'
import { startHaproxyGateway } from '../haproxy/index.ts'
import type { Paths } from '../haproxy/paths.ts'
import { testCertificate } from './certificate.ts'
import { openTestCluster } from './cluster.ts'
import { until } from './sockets.ts'

export type AgentOptions = {
  paths: Paths
  ports: { first: number; last: number }
  /** The difference between its clock and the machine's clock, in milliseconds. */
  offset: number
  serviceAddress: string
}

const { paths, ports, offset, serviceAddress }: AgentOptions = JSON.parse(process.argv[2] ?? '')
const now = () => Date.now() + offset
const cluster = await openTestCluster()
await startHaproxyGateway({
  cluster: cluster.faulty,
  identity: 'child',
  paths,
  ports,
  certificate: testCertificate('gateway.test'),
  heartbeatMs: 100,
  now,
  logger: pino({ level: 'silent' }),
})
process.on('message', async (route: Route) => {
  await cluster.putService(route.target, serviceAddress)
  const version = await cluster.putRoute(route)
  await until('the route is acknowledged', async () => acknowledged(version, await cluster.leases(), now()).done)
  process.send?.(route.port)
})
process.send?.('ready')
