/** Metrics of services over HTTP, from pods that return samples. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient } from '../testing/client.ts'

const namespace = tenantNamespace('acme')
const start = Date.parse('2026-01-01T12:00:00Z')
const at = (minutes: number) => new Date(start + minutes * 60_000).toISOString()
const windowed = `service=rest&interval=1 minute&start_time=${at(0)}&end_time=${at(3)}`
const names = ['requests_2xx', 'requests_5xx', 'pool_in_use', 'of_a_later_release', '__proto__']
const rows = [0, 1, 2, 3].map(index => [start + index * 30_000, 30 * index, 0, 4, 1, 1])

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

async function answering(answer: () => string): Promise<number> {
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/samples' ? 200 : 404
    response.end(answer())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port // the server listens on a port
}

type Ports = { name: string; containerPort: number }[]

async function addPod(name: string, id: string, ports: Ports, service = 'rest', phase = 'Running'): Promise<void> {
  const podLabels = { [labels.database]: id, [labels.service]: service }
  const made = await client.cluster.create('Pod', {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace, labels: podLabels } },
    spec: { containers: [{ name: 'rest', image: 'espalier', ports }] },
  })
  await client.cluster.replaceStatus('Pod', { ...made, status: { phase, podIP: '127.0.0.1' } })
}
const samplesAt = (containerPort: number): Ports => [
  { name: 'http', containerPort: 1 },
  { name: 'samples', containerPort },
]
const create = (name: string) =>
  createStable(client, name, {
    services: [{ service_type: 'rest', rest_config: { db_schemas: 'public', db_anon_role: 'anon' } }],
  })
const get = (id: string, query = windowed) => client.call('GET', `/databases/${id}/metrics?${query}`)
const seriesIn = (body: { series: { name: string; values: unknown[][] }[] }, name: string) =>
  body.series.find(series => series.name === name)?.values

test('the series of a service cover all its running pods', async () => {
  const id = await create('summed')
  const port = await answering(() => JSON.stringify({ id, names, samples: rows }))
  await addPod('summed-1', id, samplesAt(port))
  await addPod('summed-2', id, samplesAt(port))
  await addPod('summed-3', id, samplesAt(1), 'mcp')
  await addPod('summed-4', id, samplesAt(1), 'rest', 'Pending')
  const { status, body, headers } = await get(id)
  expect(status, JSON.stringify(body)).toBe(200)
  expect(headers['cache-control']).toBe('no-store')
  expect(seriesIn(body, 'requests')?.map(([time, rate]) => [time, rate])).toEqual([
    ['2026-01-01T12:00:00Z', 2],
    ['2026-01-01T12:01:00Z', 2],
  ])
  expect(seriesIn(body, 'pool')).toEqual([
    ['2026-01-01T12:00:00Z', null, 8, null, null],
    ['2026-01-01T12:01:00Z', null, 8, null, null],
  ])
  expect(seriesIn(body, 'pods')?.map(([, pods]) => pods)).toEqual([2, 2])
  expect(seriesIn(body, 'connections')).toBeUndefined()
})

test('a pod without metrics support has no rows, and causes no error', async () => {
  const id = await create('older')
  await addPod('older-1', id, [{ name: 'http', containerPort: 3000 }])
  const { status, body } = await get(id)
  expect(status).toBe(200)
  expect(body.series.length).toBeGreaterThan(4)
  expect(body.series.every(({ values }: { values: unknown[] }) => values.length === 0)).toBe(true)
})

test.each<[string, (id: string) => unknown]>([
  ['of another database', () => ({ id: 'other', names, samples: rows })],
  ['that are invalid', id => ({ id, names, samples: [['now']] })],
  ['of too many names', id => ({ id, names: Array(101).fill('x'), samples: [] })],
  ['that are too large', id => ({ id, names, samples: [], more: 'x'.repeat(600_000) })],
])('samples %s are an error; one responding pod is enough', async (what, answer) => {
  const id = await create(`wrong${what.length}`)
  const port = await answering(() => JSON.stringify(answer(id)))
  await addPod(`wrong${what.length}-1`, id, samplesAt(port))
  expectError(await get(id), 503, /^the metrics cannot be read now/)
  const good = await answering(() => JSON.stringify({ id, names, samples: rows }))
  await addPod(`wrong${what.length}-2`, id, samplesAt(good))
  expect(seriesIn((await get(id)).body, 'pods')?.map(([, pods]) => pods)).toEqual([1, 1])
})

test('refuses a missing or unknown service', async () => {
  const id = await create('refused')
  expectError(await get(id, 'service=mcp'), 400, /^service: the database has no mcp service/)
  expectError(await get(id, 'service=psql'), 400, /^service: must be one of/)
  expectError(await get(id, 'service=rest&service=mcp'), 400, /^service: must occur only once/)
})

test('the error for a suspended database gives the reason', async () => {
  const id = await create('asleep')
  expect((await client.call('POST', `/databases/${id}/suspend`)).status).toBeLessThan(300)
  expectError(await get(id), 409, /metrics need a running service/)
})
