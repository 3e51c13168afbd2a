/** Metrics over HTTP, from an agent over TLS and from a server that implements Prometheus's protocol. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { childNames, systemNamespace, tenantNamespace } from '../../crds/index.ts'
import { type Measure, measureNames, metricName, type Sample } from '../../instance/agent/measures.ts'
import { type AgentServer, startServer } from '../../instance/agent/server.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { systemCertificates } from '../../sealing/credentials.ts'
import { type Client, createStable, expectError, startClient, storedDatabase } from '../testing/client.ts'
import { configurationOf } from '../testing/harness.ts'

const host = '127.0.0.1'
const minute = 60_000
const start = Date.parse('2026-01-01T12:00:00Z')
const at = (minutes: number) => new Date(start + minutes * minute).toISOString()
const windowed = `?interval=1 minute&start_time=${at(0)}&end_time=${at(3)}`
const none = Object.fromEntries(measureNames.map(name => [name, null])) as Sample['values']
const samples: Sample[] = [-0.5, 0, 0.5, 1, 1.5].map((minutes, index) => ({
  at: start + minutes * minute,
  values: { ...none, connections: index, transactions_committed: 60 * index },
}))
const seriesIn = (body: { series: { name: string; values: unknown[][] }[] }, name: string) =>
  body.series.find(series => series.name === name)?.values

describe('from the agent', () => {
  const authority = createAuthority()
  const directory = mkdtempSync(join(tmpdir(), 'espalier-series-'))
  let client: Client
  let agent: AgentServer | undefined
  let address: { host: string; port: number } | undefined
  const requests: { service: string; namespace: string }[] = []

  /** Starts an agent with a certificate for this name. The agent reports this id. */
  async function startAgent(name: string, answer: (query: URLSearchParams) => unknown): Promise<void> {
    const { cert, key } = issueServerCertificate(authority, { dnsNames: [name] })
    for (const [file, text] of Object.entries({ 'tls.crt': cert, 'tls.key': key, 'ca.crt': authority.cert }))
      writeFileSync(join(directory, file), text)
    const body = (query: URLSearchParams) => ({ contentType: 'application/json', body: JSON.stringify(answer(query)) })
    const routes = { '/samples': { for: ['api'] as const, answer: body } }
    agent = await startServer({ host, port: 0, tls: directory, routes, log: () => {} })
    address = { host, port: agent.port }
  }
  beforeAll(async () => {
    client = await startClient({
      resolve: target => {
        requests.push(target)
        return address
      },
    })
    const { cert, key } = issueClientCertificate(authority, { commonName: 'espalier-api' })
    const data = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': authority.cert }
    await client.cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: systemCertificates.apiClient, namespace: systemNamespace },
      data: Object.fromEntries(
        Object.entries(data).map(([name, text]) => [name, Buffer.from(text).toString('base64')]),
      ),
    })
  })
  afterEach(async () => {
    await agent?.stop()
    agent = undefined
    address = undefined
    requests.length = 0
  })
  afterAll(async () => {
    rmSync(directory, { recursive: true })
    await client.close()
  })

  const get = (id: string, query = windowed) => client.call('GET', `/databases/${id}/metrics${query}`)
  const nameOf = (id: string) => `${childNames.service(id)}.${tenantNamespace('acme')}.svc`

  test('a database has its series', async () => {
    const id = await createStable(client, 'measured')
    const since: (string | null)[] = []
    await startAgent(nameOf(id), query => {
      since.push(query.get('since'))
      return { id, samples }
    })
    const { status, body, headers } = await get(id)
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(seriesIn(body, 'connections')).toEqual([
      ['2026-01-01T12:00:00Z', 1.5, null, null, null, null],
      ['2026-01-01T12:01:00Z', 3.5, null, null, null, null],
    ])
    expect(seriesIn(body, 'transactions')?.map(([, rate]) => rate)).toEqual([2, 2])
    expect(requests).toEqual([{ namespace: tenantNamespace('acme'), service: childNames.service(id), port: 8432 }])
    expect(since).toEqual([String(start - minute)])
  })

  test('a branch has its own series, which cannot be read through another database', async () => {
    const [id, other] = [await createStable(client, 'source'), await createStable(client, 'elsewhere')]
    const branchId = '0b9a9e2e-7f0d-4c3a-9f3e-1d2c3b4a5968'
    await client.cluster.create('Branch', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'Branch',
      metadata: { name: 'copied', namespace: tenantNamespace('acme'), labels: { 'espalier.dev/id': branchId } },
      spec: {
        databaseName: 'source',
        databaseId: id,
        region: 'local',
        size: { name: 'small', version: 1 },
        pgVersion: '18',
      },
    })
    await startAgent(nameOf(branchId), () => ({ id: branchId, samples }))
    const getMetrics = (databaseId: string) =>
      client.call('GET', `/databases/${databaseId}/branches/${branchId}/metrics${windowed}`)
    expect(seriesIn((await getMetrics(id)).body, 'connections')).toHaveLength(2)
    expectError(await getMetrics(other), 404, /branch/)
  })

  test('a window without data is empty, and causes no error', async () => {
    const id = await createStable(client, 'quiet')
    await startAgent(nameOf(id), () => ({ id, samples: [] }))
    const { status, body } = await get(id, '')
    expect(status).toBe(200)
    expect(body.series.every(({ values }: { values: unknown[] }) => values.length === 0)).toBe(true)
  })

  test.each<[string, (id: string) => [string, unknown]]>([
    ['is of another instance', id => [nameOf('00000000-0000-4000-8000-000000000001'), { id, samples }]],
    ['reports another instance', id => [nameOf(id), { id: 'other', samples }]],
    ['returns an invalid sample', id => [nameOf(id), { id, samples: [{ at: 'now' }] }]],
    ['returns too much', id => [nameOf(id), { id, samples: [], more: 'x'.repeat(1_100_000) }]],
  ])('an agent that %s is an error', async (what, of) => {
    const id = await createStable(client, `wrong${what.length}`)
    const [name, answer] = of(id)
    await startAgent(name, () => answer)
    expectError(await get(id), 503, /^the metrics cannot be read now/)
  })

  test('a missing agent causes an error with the reason: an old pod, a stopped database, or no response', async () => {
    const id = await createStable(client, 'older')
    expectError(await get(id), 503, /^the metrics cannot be read now/)
    const database = await storedDatabase(client, 'older')
    const pendingRestart = [{ reason: 'PodTemplate', message: 'older', since: at(0) }]
    await client.cluster.replaceStatus('ManagedDatabase', {
      ...database,
      status: { ...database.status, pendingRestart },
    })
    await expect.poll(async () => (await get(id)).status).toBe(409)
    const answer = await get(id)
    expectError(answer, 409, /metrics were sampled: they start with its next restart/)
    expect(answer.headers).not.toHaveProperty('retry-after')
    const { body } = await client.create('unmade')
    const early = await get(body.id)
    expectError(early, 409, /^the database is creating: metrics need a running Postgres/)
    expect(early.headers['retry-after']).toBe('2')
    await client.call('DELETE', `/databases/${body.id}`)
    await expect.poll(async () => (await get(body.id)).body.message).toMatch(/is deleting|not found/)
    expect((await get(body.id)).headers).not.toHaveProperty('retry-after')
  })

  test('concurrent reads are limited', async () => {
    const id = await createStable(client, 'busy')
    const gate = Promise.withResolvers<void>()
    await startAgent(nameOf(id), () => ({ id, samples }))
    const before = client.cluster.get
    // The API reads its certificate again after a minute.
    client.now.ms += 61_000
    client.cluster.get = (async (...args: Parameters<typeof before>) => {
      await gate.promise
      return before(...args)
    }) as typeof before
    const all = Array.from({ length: 9 }, () => get(id))
    expectError(await Promise.race(all), 429)
    gate.resolve()
    client.cluster.get = before
    expect((await Promise.all(all)).map(({ status }) => status).sort()).toEqual([...Array(8).fill(200), 429])
  })

  let made = 0
  test.each([
    ['interval=5', /^interval: must be a number and a unit/],
    ['interval=0 minutes', /^interval: must be longer than zero/],
    ['interval=1 minute&interval=2 minutes', /interval/],
    ['start_time=yesterday', /start_time/],
    [`start_time=${at(1)}&end_time=${at(0)}`, /^start_time: must be before end_time/],
    [`start_time=${at(-9000)}&end_time=${at(0)}`, /^interval: more than 1000 points/],
    ['step=5', /step/],
  ])('400 for %s, with and without series', async (query, message) => {
    made += 1
    const { body } = await client.create(`bad${made}`)
    expectError(await get(body.id, `?${query}`), 400, message)
  })

  test('causes a 404 for a missing database, and for another account', async () => {
    expectError(await get('00000000-0000-4000-8000-000000000000'), 404, /database/)
    const id = await createStable(client, 'mine')
    expectError(await client.call('GET', `/databases/${id}/metrics`, { claims: { tenant: 'other' } }), 404, /database/)
  })
})

describe('from Prometheus', () => {
  let prometheus: Server
  let client: Client
  let answer: (query: URLSearchParams) => { status?: number; body: unknown }
  const requests: URL[] = []

  /**
   * The result of `query_range` over collected samples: at each step, the newest value of the five minutes before it.
   */
  const gathered = (query: URLSearchParams, id: string) => {
    const [from, to, step] = ['start', 'end', 'step'].map(name => Number(query.get(name))) as [number, number, number]
    if (!(step > 0) || (to - from) / step > 11_000 || !query.get('query')?.includes(`espalier_id="${id}"`))
      return { status: 400, body: { status: 'error', errorType: 'bad_data', error: 'no' } }
    const moments = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step)
    const of = (measure: Measure) =>
      moments.flatMap(moment => {
        const found = samples.findLast(({ at: time }) => time <= moment * 1000 && time > moment * 1000 - 5 * minute)
        const value = found?.values[measure]
        return value === null || value === undefined ? [] : [[moment, String(value)]]
      })
    const result = measureNames.map(measure => ({ metric: { __name__: metricName(measure) }, values: of(measure) }))
    const known = result.filter(({ values }) => values.length > 0)
    return { body: { status: 'success', data: { resultType: 'matrix', result: known } } }
  }

  beforeAll(async () => {
    prometheus = createServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://prometheus')
      requests.push(url)
      const { status = 200, body } = answer(url.searchParams)
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
    await new Promise<void>(resolve => prometheus.listen(0, host, resolve))
    const url = `http://${host}:${(prometheus.address() as AddressInfo).port}/prefix/`
    client = await startClient({ configuration: configurationOf({ prometheus: { url } }) })
  })
  beforeEach(() => {
    requests.length = 0
  })
  afterAll(async () => {
    await client.close()
    await new Promise(resolve => prometheus.close(resolve))
  })
  const get = (id: string, query = windowed) => client.call('GET', `/databases/${id}/metrics${query}`)

  test('the series are the same, with the values at the steps', async () => {
    const id = await createStable(client, 'gathered')
    answer = query => gathered(query, id)
    const { status, body } = await get(id)
    expect(status).toBe(200)
    expect(seriesIn(body, 'connections')?.slice(0, 2)).toEqual([
      ['2026-01-01T12:00:00Z', 1, null, null, null, null],
      ['2026-01-01T12:01:00Z', 3, null, null, null, null],
    ])
    expect(seriesIn(body, 'transactions')?.[0]).toEqual(['2026-01-01T12:01:00Z', 2, null])
    expect(requests.map(({ pathname }) => pathname)).toEqual(['/prefix/api/v1/query_range'])
    const parameters = requests[0]?.searchParams
    expect(['start', 'end', 'step'].map(name => parameters?.get(name))).toEqual([
      String((start - minute) / 1000),
      String((start + 3 * minute) / 1000),
      '60',
    ])
  })

  test('missing data causes an empty window, and a broken store causes an error', async () => {
    const id = await createStable(client, 'unheard')
    answer = () => ({ body: { status: 'success', data: { resultType: 'matrix', result: [] } } })
    const { status, body } = await get(id)
    expect([status, seriesIn(body, 'connections')]).toEqual([200, []])
    for (const broken of [
      { status: 503, body: { status: 'error', errorType: 'timeout', error: 'query timed out' } },
      { body: { status: 'success', data: { resultType: 'vector', result: [] } } },
      { body: 'nothing' },
    ]) {
      answer = () => broken
      expectError(await get(id), 503, /^the metrics cannot be read now/)
    }
  })

  test('omits unknown metrics, and values that are not numbers', async () => {
    const id = await createStable(client, 'odd')
    const of = (name: string, value: string) => ({ metric: { __name__: name }, values: [[start / 1000, value]] })
    const result = [
      of('espalier_postgres_connections', 'NaN'),
      of('espalier_postgres_locks', '7'),
      of('espalier_postgres_of_tomorrow', '1'),
    ]
    answer = () => ({ body: { status: 'success', data: { resultType: 'matrix', result } } })
    const { body } = await get(id)
    expect(seriesIn(body, 'connections')).toEqual([])
    expect(seriesIn(body, 'locks')).toEqual([['2026-01-01T12:00:00Z', 7, null, null]])
  })
})
