import { request } from 'node:http'
import { connect } from 'node:net'
import { pino } from 'pino'
import { Gauge, Registry } from 'prom-client'
import { afterEach, describe, expect, test } from 'vitest'
import { type Check, type HealthServer, startHealthServer } from './health.ts'
import { metricsPage, processMetrics } from './metrics.ts'

const logger = pino({ level: 'silent' })
const servers: HealthServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
})

async function open(checks: { live?: Record<string, Check>; ready?: Record<string, Check> } = {}) {
  const registry = new Registry()
  const metrics = metricsPage(() => [registry, processMetrics()])
  const { live = {}, ready = {} } = checks
  const server = await startHealthServer({ host: '127.0.0.1', port: 0, live, ready, metrics, logger })
  servers.push(server)
  const url = `http://127.0.0.1:${server.address.port}`
  const get = async (path: string, init?: RequestInit) => {
    const response = await fetch(url + path, init)
    return { status: response.status, body: await response.text(), type: response.headers.get('content-type') }
  }
  return { server, registry, metrics, get }
}

describe('the health page', () => {
  test('/healthz and /readyz name each check, and the reason of each failed one', async () => {
    let synced: string | undefined = 'the Pod cache has no list yet'
    const { get } = await open({
      live: { workers: () => undefined },
      ready: {
        caches: () => synced,
        keys: async () => undefined,
        broken: () => {
          throw new Error('the check failed')
        },
      },
    })
    expect(await get('/healthz')).toMatchObject({ status: 200, body: '[+]workers ok\ncheck passed\n' })
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      body: '[-]caches failed: the Pod cache has no list yet\n[+]keys ok\n[-]broken failed: the check failed\ncheck failed\n',
    })
    synced = undefined
    expect((await get('/readyz?verbose')).body).toContain('[+]caches ok')
  })

  test('if a check does not respond, it counts as failed, and the page still responds in time', async () => {
    const { get } = await open({ ready: { deaf: () => new Promise(() => {}) } })
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      body: '[-]deaf failed: no result within 2 s\ncheck failed\n',
    })
  })

  test("/metrics contains the given metrics and the process's; any other path is 404, any other method 405", async () => {
    const { get, registry } = await open()
    new Gauge({ name: 'leads', help: 'Of a test.', registers: [registry] }).set(1)
    const page = await get('/metrics')
    expect(page).toMatchObject({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' })
    expect(page.body).toContain('\nleads 1\n')
    expect(page.body).toContain('process_resident_memory_bytes')
    expect((await get('/')).status).toBe(404)
    expect((await get('/healthz/../etc')).status).toBe(404)
    expect((await get('/healthz', { method: 'POST', body: 'x' })).status).toBe(405)
    expect(await get('/healthz', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' })
  })

  test('requests per connection and header sizes are limited', async () => {
    const { server, get } = await open()
    const socket = connect(server.address.port, '127.0.0.1')
    let answered = ''
    socket.on('data', data => {
      answered += data.toString()
      if (answered.includes('HTTP/1.1 503')) socket.destroy()
    })
    const ended = new Promise<void>(resolve => {
      socket.on('error', () => resolve())
      socket.on('close', () => resolve())
    })
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(300))
    await ended
    expect(answered.match(/HTTP\/1.1 200/g)).toHaveLength(100)
    expect((await get('/healthz', { headers: { long: 'x'.repeat(20_000) } })).status).toBe(431)
  })

  test('stop closes open connections and frees the port', async () => {
    const { server } = await open()
    const socket = connect(server.address.port, '127.0.0.1')
    await new Promise(resolve => socket.once('connect', resolve))
    const closed = new Promise(resolve => socket.once('close', resolve))
    socket.on('error', () => {})
    socket.write('GET /heal')
    await server.stop()
    await closed
    const refused = await new Promise<string | undefined>(resolve => {
      request({ port: server.address.port, host: '127.0.0.1' })
        .on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        .end()
    })
    expect(refused).toBe('ECONNREFUSED')
  })

  test('a port in use is an error, not a crash', async () => {
    const { server, metrics } = await open()
    const again = startHealthServer({ ...server.address, live: {}, ready: {}, metrics, logger })
    await expect(again).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })

  test('a server without metrics has no /metrics, and listens on every address by default', async () => {
    const server = await startHealthServer({ port: 0, live: {}, ready: {}, logger })
    servers.push(server)
    const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${server.address.port}${path}`)).status
    expect(await Promise.all(['/healthz', '/readyz', '/metrics'].map(statusOf))).toEqual([200, 200, 404])
  })
})
