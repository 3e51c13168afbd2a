/** The gateway's thread with a store and a target that the test provides. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { HttpsOptions } from '../../gateway/in-process.ts'
import { testCertificate } from '../../gateway/testing/certificate.ts'
import { errorFields, startupMessage } from '../../gateway/testing/client.ts'
import { openTestCluster, type TestCluster } from '../../gateway/testing/cluster.ts'
import { freePort, listen, ownLoopback, until } from '../../gateway/testing/sockets.ts'
import { acknowledged, type HttpRoute, type HttpService, type Route } from '../../routes/route.ts'
import { type GatewayThread, startGatewayThread } from './thread.ts'

const certificate = testCertificate('gateway.test')
const host = ownLoopback()
const target = { namespace: 'espalier-t-1', service: 'db-1', port: 5432 }

let cluster: TestCluster
let lines: { level: number; msg: string }[]

beforeEach(async () => {
  cluster = await openTestCluster()
  lines = []
  return () => cluster.close()
})

async function start(served = certificate, https?: HttpsOptions): Promise<{ gateway: GatewayThread; worker: Worker }> {
  const made = once(process, 'worker')
  const gateway = startGatewayThread({
    cluster: cluster.faulty,
    identity: 'one',
    listenHost: host,
    certificate: served,
    ...(https && { https }),
    logger: pino({ level: 'warn' }, { write: line => void lines.push(JSON.parse(line)) }),
  })
  onTestFinished(() => gateway.stop({ drainMs: 0 }))
  const [worker] = await made
  return { gateway, worker }
}

const routeOn = (port: number, rules: string[]): Route => ({ databaseId: 'id', label: 'shop-1', port, target, rules })

/** Writes a route and waits until it is applied. */
async function put(route: Route | HttpRoute): Promise<void> {
  const version = await cluster.putRoute(route)
  await until('the route is acknowledged', async () => acknowledged(version, await cluster.leases(), Date.now()).done)
}

/** Sends a startup message. Returns `ok` if the gateway admits the client, otherwise the SQLSTATE. */
async function connectOnce(port: number): Promise<{ answer: string; socket: Socket }> {
  const socket = connect({ host, port }).on('error', () => {})
  onTestFinished(() => void socket.destroy())
  socket.write(startupMessage())
  const [bytes] = await once(socket, 'data')
  return { answer: errorFields(bytes)?.C ?? String(bytes.subarray(0, 2)), socket }
}

test('routes, addresses, metrics and the Lease cross the threads; stopping releases the Lease', async () => {
  const { server, port: targetPort } = await listen(host, socket => socket.on('error', () => {}).write('ok'))
  onTestFinished(() => void server.close())
  const { gateway } = await start()
  await gateway.started
  const port = await freePort(host)
  await put(routeOn(port, ['0.0.0.0/0']))
  expect((await connectOnce(port)).answer).toBe('57P03')
  const ports = [{ port: target.port, addresses: [{ host, port: targetPort }] }]
  gateway.setEndpoints([{ ...target, ports }])
  const { answer, socket } = await connectOnce(port)
  expect(answer).toBe('ok')

  const page = await gateway.figures.metrics()
  expect(page).toContain('espalier_gateway_routes 1')
  expect(page).toContain('espalier_gateway_open_connections 1')
  await put(routeOn(port, []))
  expect((await connectOnce(port)).answer).toBe('28000')
  expect(socket.destroyed).toBe(false)
  gateway.setEndpoints([{ ...target, ports: [] }])
  await put(routeOn(port, ['0.0.0.0/0']))
  expect((await connectOnce(port)).answer).toBe('57P03')

  await gateway.stop({ drainMs: 0 })
  expect(await cluster.leases()).toEqual([])
  expect(gateway.check()).toBeUndefined()
})

test('clients reach services over HTTPS by routes, addresses and certificates that cross the threads', async () => {
  const upstream = createServer((_, response) => response.end('ok'))
  await once(upstream.listen(0, host), 'listening')
  onTestFinished(() => void upstream.close())
  const served = testCertificate('shop-1.db.test')
  const port = await freePort(host)
  const { gateway } = await start(certificate, { port, certificates: [certificate], ownNames: ['localhost'] })
  await gateway.started
  gateway.setHttpsCertificates([served])
  const rest: HttpService = { service: 'rest', target: { ...target, port: 3000 }, rules: ['127.0.0.0/8'] }
  const route: HttpRoute = { kind: 'http', host: 'shop-1.db.test', databaseId: 'id', label: 'shop-1', services: [rest] }
  await put(route)
  const requestStatus = async (): Promise<number | undefined> => {
    const sent = request({ host, port, path: '/rest/', servername: route.host, ca: served.ca, agent: false })
    sent.setHeader('host', route.host)
    sent.end()
    const [answer] = await once(sent, 'response')
    answer.resume()
    return answer.statusCode
  }
  expect(await requestStatus()).toBe(503)
  const { port: targetPort } = upstream.address() as AddressInfo
  gateway.setEndpoints([{ ...target, ports: [{ port: 3000, addresses: [{ host, port: targetPort }] }] }])
  expect(await requestStatus()).toBe(200)
  expect(await gateway.figures.metrics()).toContain('espalier_gateway_http_requests_total{service="rest",code="200"} 1')
  await put({ ...route, services: [{ ...rest, rules: [] }] })
  expect(await requestStatus()).toBe(403)
})

test('the thread continues after the store failed and ended its watches', async () => {
  const { gateway } = await start()
  await gateway.started
  const port = await freePort(host)
  await put(routeOn(port, []))
  cluster.faults.routes = true
  cluster.breakWatches()
  await until('the failed list or watch is logged', () =>
    lines.some(({ msg }) => msg.startsWith('cannot list or watch the cluster')),
  )
  cluster.faults.routes = false
  await put(routeOn(port, ['0.0.0.0/0']))
  cluster.breakWatches()
  await put(routeOn(port, []))
  expect((await connectOnce(port)).answer).toBe('28000')
})

test('an invalid certificate is logged without its text, and the previous certificate stays', async () => {
  const { gateway } = await start()
  await gateway.started
  gateway.setCertificate({ cert: 'none', key: 'a private key' })
  await until('a line is logged', () => lines.length > 0)
  expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
    [40, "the gateway's certificate cannot be used; keeping the previous one"],
  ])
  expect(JSON.stringify(lines)).not.toContain('a private key')
})

test('a thread that cannot start is reported to its caller', async () => {
  const { gateway } = await start({ ...certificate, key: 'none' })
  await expect(gateway.started).rejects.toThrow("the gateway's thread has ended")
})

test('a thread that ends by itself is reported, logged, and not waited for', async () => {
  const { gateway, worker } = await start()
  await gateway.started
  await put(routeOn(await freePort(host), []))
  expect(gateway.check()).toBeUndefined()
  await worker.terminate()
  expect(await gateway.failed).toContain("the gateway's thread has ended")
  expect(gateway.check()).toBe(await gateway.failed)
  expect(lines.map(({ level }) => level)).toContain(60)
  await expect(gateway.figures.metrics()).rejects.toThrow("the gateway's thread has ended")
  await gateway.stop({ drainMs: 60_000 })
})
