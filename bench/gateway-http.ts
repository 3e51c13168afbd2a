/**
 * Measures HTTPS through the gateway of an embedded installation, against direct HTTPS to the same service in the same
 * run:
 * - p50 and p99 of a request on an open connection, to a service that responds at once, and to one that takes 5 ms;
 * - the time to the first event of a stream;
 * - 3,000 routes of three services: the time to read all routes, to add one, and to decide one request.
 *
 * Service and client run in separate processes.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { IncomingMessage, RequestListener } from 'node:http'
import { createServer } from 'node:http'
import { Agent, createServer as createTlsServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { Registry } from 'prom-client'
import { decideRequest } from '../gateway/http/decision.ts'
import { createHttpMetrics } from '../gateway/http/metrics.ts'
import { createHttpsServer, type HttpsServer } from '../gateway/http/server.ts'
import { buildHosts, type HostTable, withHost } from '../gateway/http/table.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { httpRouteName, routeKey } from '../routes/route.ts'
import { against, median, percentile, print } from './statistics.ts'

const host = '127.0.0.1'
const name = 'shop-1.db.test'
const rounds = 5
type Order = { port: number; path: string; count: number }

const answer: RequestListener = ({ url = '' }, response) => {
  if (url.endsWith('/events')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: first\n\n')
  } else setTimeout(() => response.end('{"id":1}'), url.endsWith('/slow') ? 5 : 0)
}

async function runService(): Promise<void> {
  const { cert, key } = testCertificate(name)
  const [plain, tls] = [createServer(answer), createTlsServer({ cert, key }, answer)]
  await Promise.all([once(plain.listen(0, host), 'listening'), once(tls.listen(0, host), 'listening')])
  process.send?.([plain, tls].map(server => (server.address() as AddressInfo).port))
}

/** Returns the ms from each request to the first byte of the response's body. */
async function measure({ port, path, count }: Order): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, servername: name })
  const times: number[] = []
  for (let turn = 0; turn < count; turn++) {
    const began = performance.now()
    const outgoing = request({ host, port, path, agent, headers: { host: name } })
    outgoing.end()
    const [response]: IncomingMessage[] = await once(outgoing, 'response')
    if (response === undefined) continue
    const ended = new Promise(resolve => response.on('error', () => {}).once('close', resolve))
    await once(response, 'data')
    times.push(performance.now() - began)
    if (path.endsWith('/events')) outgoing.destroy()
    await ended
  }
  agent.destroy()
  return times
}

const start = (role: string): ChildProcess => fork(fileURLToPath(import.meta.url), [role])

const routeMap = (route: string, index: number) => ({
  ...{ apiVersion: 'v1' as const, kind: 'ConfigMap' as const, metadata: { name: httpRouteName(route) } },
  data: {
    [routeKey]: JSON.stringify({
      ...{ kind: 'http', host: route, databaseId: `019c1f2a-5b3c-7d4e-8f60-${String(index).padStart(12, '0')}` },
      label: route,
      services: ['mcp', 'rest', 'rag'].map(service => ({
        ...{ service, target: { namespace: 'tenant', service: `db-${index}-${service}`, port: 80 } },
        rules: ['0.0.0.0/0', ...Array.from({ length: 9 }, (_, rule) => `10.${rule}.${index % 256}.0/24`)],
      })),
    }),
  },
})

function timed<T>(run: () => T): [T, number] {
  const began = performance.now()
  return [run(), performance.now() - began]
}

function tables(): HostTable {
  const maps = Array.from({ length: 3_000 }, (_, index) => routeMap(`shop-${index}.db.test`, index))
  const [{ table }, all] = timed(() => buildHosts(maps))
  const adding = Array.from(
    { length: 50 },
    (_, index) => timed(() => withHost(table, routeMap(`new-${index}.db.test`, 5_000 + index)))[1],
  )
  const facts = {
    host: name,
    sni: name,
    target: '/rest/x',
    address: host,
    authorization: undefined,
    isPreflight: false,
  }
  const [, verdicts] = timed(() => {
    for (let turn = 0; turn < 100_000; turn++) decideRequest(table, new Set(), facts)
  })
  print('3,000 routes: read all', `${all.toFixed(0)} ms`)
  print('3,000 routes: add one', against(median(adding), 100, 'at most', ' ms'))
  print('3,000 routes: one decision', `${(verdicts / 100).toFixed(1)} µs`)
  return table
}

async function compare(): Promise<void> {
  const hosts = tables()
  const [service, client] = [start('service'), start('client')]
  const [ports]: [number, number][] = (await once(service, 'message')) as [[number, number]]
  const [plain = 0, direct = 0] = ports ?? []
  const { cert, key } = testCertificate(name)
  const server: HttpsServer = createHttpsServer({
    ...{ certificates: [{ cert, key }], admitting: () => true, now: Date.now, logger: pino({ level: 'silent' }) },
    decide: facts => decideRequest(hosts, new Set(), facts),
    resolve: () => ({ host, port: plain }),
    metrics: createHttpMetrics(new Registry(), { connections: () => 0, requests: () => 0, hosts: () => 0 }),
  })
  const port = await server.listen({ host, port: 0 })
  const measureOrder = async (order: Order): Promise<number[]> => {
    client.send(order)
    return (await once(client, 'message'))[0]
  }
  for (const [what, path, count] of [
    ['a request answered immediately', '/rest/fast', 200],
    ['a request of 5 ms', '/rest/slow', 60],
    ['the first event of a stream', '/rest/events', 20],
  ] as const) {
    const [through, straight]: [number[], number[]] = [[], []]
    for (let round = 0; round < rounds; round++) {
      straight.push(...(await measureOrder({ port: direct, path, count })).slice(round === 0 ? count / 2 : 0))
      through.push(...(await measureOrder({ port, path, count })).slice(round === 0 ? count / 2 : 0))
    }
    const p99 = [through, straight].map(times => percentile(times, 0.99))
    print(`${what}, direct: p50, p99`, `${median(straight).toFixed(2)} ms, ${p99[1]?.toFixed(2)} ms`)
    print(`${what}, gateway: p50, p99`, `${median(through).toFixed(2)} ms, ${p99[0]?.toFixed(2)} ms`)
    if (path.endsWith('/events'))
      print(`${what}: p50 added by the gateway`, against(median(through) - median(straight), 5, 'at most', ' ms'))
    else
      print(
        `${what}: p50 and p99 relative to direct`,
        `${against(median(through) / median(straight), 1.2, 'at most')}; ${against((p99[0] ?? 0) / (p99[1] ?? 1), 1.5, 'at most')}`,
      )
  }
  await server.drain(0)
  service.kill()
  client.kill()
}

const role = process.argv[2]
if (role === 'service') await runService()
else if (role === 'client') process.on('message', async (order: Order) => process.send?.(await measure(order)))
else await compare()
