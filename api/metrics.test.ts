import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Client, startClient } from './testing/client.ts'
import { configurationOf } from './testing/harness.ts'

let client: Client
beforeEach(async () => {
  const rateLimits = { tenantPerSecond: 0.001, tenantBurst: 4, failuresPerSecond: 0.001, failureBurst: 2 }
  client = await startClient({ configuration: configurationOf({ rateLimits }) })
})
afterEach(() => client.close())

const page = () => client.metrics.registry.metrics()
/** The sum of a metric's values over all labels that are not specified. */
const value = async (name: string, labels: Record<string, string> = {}): Promise<number> => {
  const lines = (await page()).split('\n').filter(line => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  const matching = lines.filter(line =>
    Object.entries(labels).every(([key, text]) => line.includes(`${key}="${text}"`)),
  )
  return matching.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
const requests = (labels: Record<string, string>) => value('espalier_api_request_duration_seconds_count', labels)

test('counts requests by route and status class, never by path', async () => {
  const { body } = await client.create('shop')
  await client.call('GET', `/databases/${body.id}`)
  await client.call('GET', '/databases/0198c0de-0000-7000-8000-000000000001')
  await client.call('GET', './made/up/path')
  expect(await requests({ method: 'POST', route: '/managed/v1/databases', status: '2xx' })).toBe(1)
  expect(await requests({ method: 'GET', route: '/managed/v1/databases/:id', status: '2xx' })).toBe(1)
  expect(await requests({ method: 'GET', route: '/managed/v1/databases/:id', status: '4xx' })).toBe(1)
  expect(await requests({ route: 'none', status: '4xx' })).toBe(1)
  expect(await page()).not.toContain(body.id)
  expect(await page()).not.toContain('made')
  expect(await value('espalier_api_requests_in_flight')).toBe(0)
})

test('refused credentials and each rate limit have separate counts', async () => {
  for (let round = 0; round < 4; round++) await client.call('GET', '/databases', { token: 'nonsense' })
  expect(await value('espalier_api_authentication_failures_total')).toBe(2)
  expect(await value('espalier_api_rate_limited_total', { limit: 'failures' })).toBe(2)
  for (let round = 0; round < 5; round++) await client.call('GET', '/databases')
  expect(await value('espalier_api_rate_limited_total', { limit: 'tenant' })).toBe(1)
})

test('does not count a disconnected client as a request in flight', async () => {
  await client.app.listen({ host: '127.0.0.1', port: 0 })
  const address = client.app.server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen')
  const socket = connect(address.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write('POST /managed/v1/databases HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n')
  // Without a token, the request is answered immediately. The connection ends before the rest of its body arrives.
  await once(socket, 'data')
  socket.destroy()
  await expect.poll(() => value('espalier_api_requests_in_flight')).toBe(0)
  expect(await requests({ method: 'POST' })).toBe(1)
})

test('reports the running version', async () => {
  expect(await value('espalier_build_info', { version: 'test', node: process.versions.node })).toBe(1)
})

test("the metrics are not served by the API's routes", async () => {
  expect((await client.call('GET', './metrics')).status).toBe(404)
  expect((await client.call('GET', '/metrics')).status).toBe(404)
})
