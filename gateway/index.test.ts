import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { systemNamespace } from '../crds/metadata.ts'
import {
  acknowledged,
  gatewayLeaseSeconds,
  newlyUnreachable,
  portRefusedBy,
  type Route,
  routeKey,
} from '../routes/route.ts'
import { type Gateway, type GatewayOptions, startGateway } from './index.ts'
import { testCertificate } from './testing/certificate.ts'
import { errorFields, startupMessage } from './testing/client.ts'
import { openTestCluster, type TestCluster } from './testing/cluster.ts'
import { anyLogins } from './testing/logins.ts'
import { freePort, listen, ownLoopback, until } from './testing/sockets.ts'

const certificate = testCertificate('gateway.test')
const host = ownLoopback()
const lapse = gatewayLeaseSeconds * 1000

let cluster: TestCluster
let target: { host: string; port: number }
let clock: { offset: number }
const now = () => Date.now() + clock.offset

beforeEach(async () => {
  clock = { offset: 0 }
  cluster = await openTestCluster()
  // The target sends "ok", then echoes.
  const { server, port } = await listen(host, socket => {
    socket.on('error', () => {}).write('ok')
    socket.pipe(socket)
    onTestFinished(() => void socket.destroy())
  })
  target = { host, port }
  return () => server.close()
})
afterEach(() => cluster.close())

async function start(options: Partial<GatewayOptions> = {}): Promise<Gateway> {
  const gateway = await startGateway({
    cluster: cluster.faulty,
    identity: 'one',
    listenHost: host,
    certificate,
    resolve: () => target,
    loginLimits: anyLogins,
    heartbeatMs: 50,
    now,
    logger: pino({ level: 'silent' }),
    ...options,
  })
  onTestFinished(() => gateway.stop({ drainMs: 0 }))
  return gateway
}

const routeOn = (port: number, rules: string[]): Route => ({
  databaseId: 'id',
  label: 'shop-12345678',
  port,
  target: { namespace: 'espalier-t-1', service: 'db-1', port: 5432 },
  rules,
})
const everyone = ['0.0.0.0/0']

/**
 * Connects to a port and sends a StartupMessage. Returns `ok` if the client is admitted, otherwise the SQLSTATE or the
 * socket's error.
 */
async function tryLogin(port: number): Promise<{ answer: string; socket: Socket }> {
  const socket = connect({ host, port })
  onTestFinished(() => void socket.destroy())
  try {
    await once(socket, 'connect')
    socket.write(startupMessage())
    const [bytes] = await once(socket, 'data')
    return { answer: errorFields(bytes)?.C ?? String(bytes.subarray(0, 2)), socket }
  } catch (error) {
    return { answer: error instanceof Error && 'code' in error ? String(error.code) : String(error), socket }
  }
}
const answerOf = async (port: number) => (await tryLogin(port)).answer

const isAcknowledged = async (version: string) => acknowledged(version, await cluster.leases(), now()).done
const untilAcknowledged = (version: string) => until('the route is acknowledged', () => isAcknowledged(version))

test('for any change, rules are applied once they are acknowledged', async () => {
  const port = await freePort(host)
  await start()
  for (let round = 0; round < 40; round++) {
    const open = round % 2 === 0
    await untilAcknowledged(await cluster.putRoute(routeOn(port, open ? everyone : [])))
    expect(await answerOf(port)).toBe(open ? 'ok' : '28000')
  }
})

test('an unreachable database is listed in the Lease, for a limited time', async () => {
  const port = await freePort(host)
  await start()
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const listed = async () => (await cluster.leases()).flatMap(lease => newlyUnreachable(lease, undefined))
  expect(await answerOf(port)).toBe('ok')
  expect(await listed()).toEqual([])
  target = { host, port: await freePort(host) }
  expect(await answerOf(port)).toBe('57P03')
  await until('the Lease lists the port as unreachable', async () => (await listed()).includes(port))
  clock.offset += 16_000
  await until('the list no longer has the port', async () => (await listed()).length === 0)
})

test('1,000 open sessions survive changes of their rules, and no new client is admitted afterwards', async () => {
  const port = await freePort(host)
  const gateway = await start({ denialLimits: { perAddress: { perSecond: 1000, burst: 1000 } } })
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const sessions: Socket[] = []
  while (sessions.length < 1000) {
    const opened = await Promise.all(Array.from({ length: 50 }, () => tryLogin(port)))
    sessions.push(...opened.map(({ socket }) => socket))
  }
  for (let round = 0; round < 20; round++) {
    await untilAcknowledged(await cluster.putRoute(routeOn(port, [`10.0.${round}.0/24`])))
    expect(await answerOf(port)).toBe('28000')
  }
  const echoes = sessions.map(async socket => {
    const echoed = once(socket, 'data')
    socket.write('ping')
    return String((await echoed)[0])
  })
  expect(new Set(await Promise.all(echoes))).toEqual(new Set(['ping']))
  expect(gateway.connections()).toBe(1000)
})

test('a route opens and closes its port, and open connections continue', async () => {
  const port = await freePort(host)
  const gateway = await start()
  expect(await answerOf(port)).toBe('ECONNREFUSED')
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const { answer, socket } = await tryLogin(port)
  expect(answer).toBe('ok')
  await cluster.deleteRoute(port)
  await until('the port is closed', async () => (await answerOf(port)) === 'ECONNREFUSED')
  socket.write('still here')
  await until('the target returns the bytes', async () =>
    String((await once(socket, 'data'))[0]).includes('still here'),
  )
  expect(gateway.connections()).toBe(1)
})

test('a route that becomes unreadable is closed, and acknowledged', async () => {
  const port = await freePort(host)
  await start()
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const key = { namespace: systemNamespace, name: `route-${port}` }
  const stored = await cluster.operator.get('ConfigMap', key)
  if (stored === undefined) throw new Error('the route is gone')
  const broken = await cluster.operator.replace('ConfigMap', { ...stored, data: { [routeKey]: '{' } })
  await untilAcknowledged(broken.metadata.resourceVersion ?? '')
  expect(await answerOf(port)).toBe('28000')
})

test("the Lease has holder and times in the API server's format", async () => {
  await start()
  await until('the gateway has created its Lease', async () => (await cluster.leases()).length === 1)
  const [lease] = await cluster.leases()
  expect(lease?.metadata.name).toBe('gateway-one')
  expect(lease?.metadata.labels?.['espalier.dev/component']).toBe('gateway')
  expect(lease?.spec).toMatchObject({ holderIdentity: 'one', leaseDurationSeconds: gatewayLeaseSeconds })
  expect(lease?.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
})

test('a burst of changes is acknowledged with few writes, never two at once', async () => {
  const port = await freePort(host)
  await start()
  let last = ''
  for (let change = 0; change < 200; change++) last = await cluster.putRoute(routeOn(port, [`10.0.${change}.0/24`]))
  await untilAcknowledged(last)
  expect(cluster.leaseWrites.atOnce).toBe(1)
  expect(cluster.leaseWrites.total).toBeLessThan(400)
})

test('a port used by another program is reported with the acknowledgement, until it is free', async () => {
  const taken = await listen(host, socket => socket.destroy())
  await start()
  await untilAcknowledged(await cluster.putRoute(routeOn(taken.port, everyone)))
  const refusing = async () => portRefusedBy(taken.port, await cluster.leases(), now())
  expect(await refusing()).toEqual(['gateway-one'])
  taken.server.close()
  await until('the Lease no longer lists the port', async () => (await refusing()).length === 0)
  expect(await answerOf(taken.port)).toBe('ok')
})

test('the operator waits for both of two replicas', async () => {
  const port = await freePort(host)
  const other = ownLoopback()
  await start()
  await start({ identity: 'two', listenHost: other })
  await until('both gateways have created their Leases', async () => (await cluster.leases()).length === 2)
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const names = (await cluster.leases()).map(lease => lease.metadata.name)
  expect(names.sort()).toEqual(['gateway-one', 'gateway-two'])
})

test('stopping closes the ports, deletes the Lease and ends open connections', async () => {
  const port = await freePort(host)
  const gateway = await start()
  await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
  const { socket } = await tryLogin(port)
  const closed = once(socket, 'close')
  await gateway.stop({ drainMs: 20 })
  await closed
  expect(await cluster.leases()).toEqual([])
  expect(await answerOf(port)).toBe('ECONNREFUSED')
})

describe('when the cluster is unreachable', () => {
  test('at the start, the gateway stays closed, and opens once the cluster is reachable', async () => {
    const port = await freePort(host)
    const version = await cluster.putRoute(routeOn(port, everyone))
    Object.assign(cluster.faults, { routes: true, leases: true })
    const gateway = await start()
    expect(gateway.admitting()).toBe(false)
    Object.assign(cluster.faults, { routes: false, leases: false })
    await untilAcknowledged(version)
    await until('the gateway admits clients', () => gateway.admitting())
    expect(await answerOf(port)).toBe('ok')
  })

  test('a replica that cannot read the routes does not make others wait for it', async () => {
    cluster.faults.routes = true
    await start()
    await new Promise(resolve => setTimeout(resolve, 300))
    expect(await cluster.leases()).toEqual([])
  })

  test('a broken watch is resumed, and changes meanwhile are not missed', async () => {
    const port = await freePort(host)
    await start()
    await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
    cluster.faults.routes = true
    cluster.breakWatches()
    const version = await cluster.putRoute(routeOn(port, []))
    expect(await answerOf(port)).toBe('ok')
    expect(await isAcknowledged(version)).toBe(false)
    cluster.faults.routes = false
    await untilAcknowledged(version)
    expect(await answerOf(port)).toBe('28000')
  })

  test('the gateway stops renewing while its watch is broken, refuses clients after the lease has expired, and opens again', async () => {
    const port = await freePort(host)
    const gateway = await start()
    await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
    const { socket } = await tryLogin(port)
    cluster.faults.routes = true
    cluster.breakWatches()
    await new Promise(resolve => setTimeout(resolve, 150))
    clock.offset += lapse
    expect(gateway.admitting()).toBe(false)
    expect(await answerOf(port)).toBe('57P03')
    expect(acknowledged('0', await cluster.leases(), now() + 20_000)).toEqual({ done: false, waitingFor: [] })
    socket.write('still here')
    await until('the target returns the bytes', async () =>
      String((await once(socket, 'data'))[0]).includes('still here'),
    )
    cluster.faults.routes = false
    await until('the gateway admits clients again', () => gateway.admitting())
    expect(await answerOf(port)).toBe('ok')
  })

  test('the gateway refuses clients if its lease cannot be renewed, even while it still receives routes', async () => {
    const port = await freePort(host)
    const gateway = await start()
    await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
    cluster.faults.leases = true
    await new Promise(resolve => setTimeout(resolve, 100))
    clock.offset += lapse
    expect(await answerOf(port)).toBe('57P03')
    cluster.faults.leases = false
    await until('the gateway admits clients again', () => gateway.admitting())
    expect(await answerOf(port)).toBe('ok')
  })

  test('a replica for which the operator did not wait admits no client by old rules when it returns', async () => {
    const port = await freePort(host)
    const gateway = await start()
    await untilAcknowledged(await cluster.putRoute(routeOn(port, everyone)))
    // The watch stops without an error, the lease expires, and the rules change meanwhile.
    cluster.silenceWatches()
    cluster.faults.leases = true
    await cluster.putRoute(routeOn(port, []))
    clock.offset += 2 * lapse
    // The lease becomes valid again before the gateway can read the routes.
    Object.assign(cluster.faults, { routes: true, leases: false })
    await until('the Lease of the gateway is valid', async () => acknowledged('0', await cluster.leases(), now()).done)
    expect(await answerOf(port)).toBe('57P03')
    cluster.faults.routes = false
    await until('the gateway admits clients again', () => gateway.admitting())
    expect(await answerOf(port)).toBe('28000')
  })
})
