/**
 * A database that gateways cannot reach while the operator can, as with a blocking network policy: with a real gateway,
 * a real client of it, and the operator.
 */
import { connect, createServer, type Server } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Gateway, startGateway } from '../../gateway/index.ts'
import { testCertificate } from '../../gateway/testing/certificate.ts'
import { freePort, ownLoopback } from '../../gateway/testing/sockets.ts'
import type { Operator } from '../index.ts'
import { startFakeWorkload } from '../testing/fake-workload.ts'
import { condition } from '../testing/fixture.ts'
import {
  databaseDraft,
  databaseWhen,
  type Installation,
  openInstallation,
  silent,
  startTestOperator,
} from '../testing/installation.ts'

const host = ownLoopback()
/**
 * The operator believes a gateway that reports failures only this long after its own login. Shorter than what it treats
 * as a clock change.
 */
const waitMs = 28_000
/** Longer than a gateway lists a failure. */
const listedMs = 16_000

const late = { operator: 0, gateway: 0 }
let installation: Installation
let workload: Awaited<ReturnType<typeof startFakeWorkload>>
let gateway: Gateway
let operator: Operator
let postgres: Server
let isReachable = true

const listening = async (): Promise<Server> => {
  const server = createServer(socket => socket.on('error', () => {}).resume())
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  return server
}
const portOf = (server: Server): number => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen')
  return address.port
}

beforeAll(async () => {
  const closed = await freePort(host)
  postgres = await listening()
  installation = await openInstallation({ fakes: false, ports: { first: 29_400, last: 29_449 } })
  const { store } = installation
  workload = await startFakeWorkload({ cluster: store.connect('fake-workload'), logger: silent })
  gateway = await startGateway({
    cluster: store.connect('espalier-gateway'),
    identity: 'gateway-1',
    listenHost: host,
    certificate: testCertificate('gateway.test'),
    resolve: () => ({ host, port: isReachable ? portOf(postgres) : closed }),
    heartbeatMs: 500,
    now: () => Date.now() + late.gateway,
    logger: silent,
  })
  operator = await startTestOperator({ store, workload }, { now: () => Date.now() + late.operator })
})
afterAll(async () => {
  await operator?.stop()
  await gateway?.stop({ drainMs: 0 })
  await workload?.stop()
  postgres?.close()
  await installation?.close()
})

/** The first bytes of a Postgres client without TLS. */
const startup = (() => {
  const parameters = Buffer.from('user\0app\0database\0app\0\0')
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + parameters.length, 0)
  head.writeInt32BE(0x30000, 4)
  return Buffer.concat([head, parameters])
})()

/** Connects repeatedly, like an application. @returns the function that stops it */
function clientOf(port: number): () => void {
  const timer = setInterval(() => {
    const socket = connect(port, host, () => socket.write(startup))
    socket.on('error', () => {}).resume()
    setTimeout(() => socket.destroy(), 1_000)
  }, 200)
  return () => clearInterval(timer)
}

test('a database that a gateway cannot reach is not ready until the gateway connects, even if the operator can log in', async () => {
  const { cluster } = installation
  await cluster.create(
    'ManagedDatabase',
    databaseDraft('severed', { ipAllowlist: { rules: [{ cidr: '127.0.0.0/8' }] } }),
  )
  const when = (status: string, reason: string, withinMs = 20_000) =>
    databaseWhen(
      cluster,
      'severed',
      found => {
        const ready = condition(found, 'Ready')
        return ready?.status === status && ready.reason === reason
      },
      withinMs,
    )
  const served = await when('True', 'Serving')
  const endClient = clientOf(served?.status?.endpoint?.port ?? 0)
  const probes = () => [...workload.postgres.prober.values()].reduce((sum, count) => sum + count, 0)
  const renewals = async () => (await cluster.list('Lease')).items.map(({ spec }) => spec?.renewTime).join()
  /** It logs in after the report, and then two more Leases arrive. */
  const untilOperatorObserves = async () => {
    await expect.poll(probes, { timeout: 10_000 }).toBeGreaterThan(probed)
    for (let count = 0; count < 2; count++) {
      const before = await renewals()
      await expect.poll(renewals, { timeout: 10_000 }).not.toBe(before)
    }
  }
  const probed = probes()
  try {
    isReachable = false
    const listed = async () => {
      const { items } = await cluster.list('Lease')
      return items.map(({ metadata }) => metadata.annotations?.['espalier.dev/unreachable-ports']).join()
    }
    await expect.poll(listed, { timeout: 10_000 }).toContain(String(served?.status?.endpoint?.port))
    // One report is no proof.
    const [soon] = [await databaseWhen(cluster, 'severed', found => found !== undefined)]
    expect(condition(soon, 'Ready')).toMatchObject({ status: 'True', reason: 'Serving' })
    await untilOperatorObserves()
    Object.assign(late, { operator: waitMs, gateway: waitMs })
    // If the operator had not logged in yet, it waits the full time.
    const cutOff = await when('False', 'CutOff', 50_000)
    expect(cutOff?.status?.phase).toBe('degraded')
    expect(condition(cutOff, 'Ready')?.message).toContain('a gateway cannot connect to Postgres')
    isReachable = true
    late.gateway += listedMs
    await when('True', 'Serving')
  } finally {
    endClient()
  }
}, 120_000)
