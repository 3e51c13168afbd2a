/** Logs through the API, and its reads of the cluster. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Cluster, ClusterError, type LogOptions } from '../../cluster/index.ts'
import { childNames, labels, tenantNamespace } from '../../crds/index.ts'
import type { Agents, Instance } from '../agents.ts'
import { type Client, createStable, expectError, startClient } from '../testing/client.ts'
import { readPrinted } from './printed.ts'
import { serviceEntriesOf } from './service.ts'

const time = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const line = (second: number, text = `entry ${second}`) =>
  `${time(second)} ${time(second).replace('T', ' ').replace('Z', '')} UTC [1:${second}] 00000 LOG:  ${text}`

type Outputs = Partial<Record<'postgres' | 'previous' | 'prepare', string[]>>

/** A cluster's logs: `bytes`, the limit of one response. */
function logsOf(outputs: Outputs, bytes = Number.POSITIVE_INFINITY) {
  const requests: LogOptions[] = []
  const logs: Cluster['logs'] = async (_pod, options = {}) => {
    requests.push(options)
    const name = options.previous ? 'previous' : (options.container as 'postgres')
    const output = outputs[name]
    if (output === undefined) throw new ClusterError('BadRequest', 'container is waiting to start')
    const since = Date.parse(options.sinceTime ?? time(-1))
    const found = output.filter(text => Date.parse(text.slice(0, text.indexOf(' '))) >= since)
    const newest = found.slice(-(options.tailLines ?? found.length))
    let taken = 0
    return newest.filter(text => {
      taken += text.length
      return taken <= bytes
    })
  }
  return { cluster: { logs } as Cluster, requests }
}
const pod = { namespace: 'n', name: 'p' }
const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, index) => from + index)
const read = async (
  outputs: Outputs,
  window: { maxLines?: number; startMs?: number; endMs?: number } = {},
  bytes?: number,
) => {
  const { cluster, requests } = logsOf(outputs, bytes)
  const fullWindow = { maxLines: 100, startMs: undefined, endMs: undefined, ...window }
  return { messages: (await readPrinted(cluster, pod, fullWindow)).map(({ message }) => message), requests }
}
const entries = (...seconds: number[]) => seconds.map(second => `entry ${second}`)

describe('a read of the log', () => {
  test('returns the newest first, and then the previous output', async () => {
    const outputs = {
      postgres: numbers(3, 10).map(second => line(second)),
      previous: numbers(2, 5).map(second => line(second)),
      prepare: [`${time(1)} initialised`],
    }
    expect((await read(outputs)).messages).toEqual([...entries(12, 11, 10, 6, 5), 'initialised'])
    expect((await read(outputs, { maxLines: 4 })).messages).toEqual(entries(12, 11, 10, 6))
    expect((await read({ postgres: [], prepare: outputs.prepare })).messages).toEqual(['initialised'])
    expect((await read({})).messages).toEqual([])
  })

  test('returns a window, including its start and excluding its end', async () => {
    const postgres = numbers(5000).map(second => line(second))
    const window = { startMs: Date.parse(time(100)), endMs: Date.parse(time(104)) }
    expect((await read({ postgres }, window)).messages).toEqual(entries(103, 102, 101, 100))
    expect((await read({ postgres }, { ...window, maxLines: 2 })).messages).toEqual(entries(103, 102))
    expect((await read({ postgres }, { startMs: Date.parse(time(9000)) })).messages).toEqual([])
    expect((await read({ postgres }, { endMs: Date.parse(time(2)) })).messages).toEqual(entries(1, 0))
  })

  test('reads a small part of a long log, up to a limit', async () => {
    const postgres = numbers(100_000).map(second => line(second))
    const few = await read({ postgres }, { maxLines: 10 })
    expect(few.messages).toEqual(entries(...numbers(10, 99_990).reverse()))
    expect(few.requests.map(({ tailLines }) => tailLines)).toEqual([1, 90])
    const none = await read({ postgres }, { maxLines: 10, endMs: Date.parse(time(1)) })
    expect(none.messages).toEqual([])
    expect(Math.max(...none.requests.map(({ tailLines = Number.POSITIVE_INFINITY }) => tailLines))).toBe(40_000)
  })

  test('returns the newest even if the cluster limits the bytes', async () => {
    const postgres = numbers(1000).map(second => line(second, `entry ${second}`))
    const { messages } = await read({ postgres }, { maxLines: 200 }, 100 * (postgres[0]?.length ?? 0))
    expect(messages[0]).toBe('entry 999')
    expect(messages.length).toBeGreaterThan(40)
  })

  test('is an error if the cluster cannot return the log', async () => {
    const logs = async () => {
      throw new ClusterError('Unavailable', 'no answer')
    }
    const window = { maxLines: 1, startMs: undefined, endMs: undefined }
    await expect(readPrinted({ logs } as unknown as Cluster, pod, window)).rejects.toThrow('no answer')
  })
})

describe('/databases/{id}/logs', () => {
  let client: Client
  /** The response of a database's agent; absent: there is none. */
  let agent: ((instance: Instance, path: string) => unknown) | undefined
  beforeAll(async () => {
    const readAgent: Agents['read'] = async (instance, path) => {
      if (agent === undefined) throw new Error('nothing runs')
      return agent(instance, path)
    }
    client = await startClient({ agents: { read: readAgent } })
  })
  afterAll(() => client.close())
  const get = (id: string, query = '') => client.call('GET', `/databases/${id}/logs${query}`)

  test('returns the entries of its own pod', async () => {
    const id = await createStable(client, 'told')
    const { cluster } = logsOf({ postgres: [line(1), line(2)] })
    const pods: string[] = []
    const before = client.cluster.logs
    client.cluster.logs = (of, options) => {
      pods.push(`${of.namespace}/${of.name}`)
      return cluster.logs(of, options)
    }
    const answer = await get(id, '?max_lines=1')
    client.cluster.logs = before
    expect(answer.status).toBe(200)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.body).toEqual({
      logs: [{ timestamp: time(2), level: 'LOG', message: 'entry 2', pid: 1, line_num: 2 }],
    })
    expect(new Set(pods)).toEqual(new Set([`${await namespaceOf()}/${childNames.pod(id, 1)}`]))
  })
  const namespaceOf = async () => (await client.cluster.list('ManagedDatabase')).items[0]?.metadata.namespace

  test("returns a branch's own entries, and refuses a branch of another database", async () => {
    const [id, other] = [await createStable(client, 'source'), await createStable(client, 'elsewhere')]
    const namespace = await namespaceOf()
    const branchId = '0b9a9e2e-7f0d-4c3a-9f3e-1d2c3b4a5968'
    await client.cluster.create('Branch', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'Branch',
      metadata: { name: 'copied', namespace: namespace ?? '', labels: { 'espalier.dev/id': branchId } },
      spec: {
        databaseName: 'source',
        databaseId: id,
        region: 'local',
        size: { name: 'small', version: 1 },
        pgVersion: '18',
      },
    })
    const { cluster } = logsOf({ postgres: [line(3)] })
    const pods: string[] = []
    const before = client.cluster.logs
    client.cluster.logs = (of, options) => {
      pods.push(of.name)
      return cluster.logs(of, options)
    }
    const readAgent = (databaseId: string) => client.call('GET', `/databases/${databaseId}/branches/${branchId}/logs`)
    const answer = await readAgent(id)
    client.cluster.logs = before
    expect(answer.body.logs).toMatchObject([{ message: 'entry 3' }])
    expect(new Set(pods)).toEqual(new Set([childNames.pod(branchId, 1)]))
    expectError(await readAgent(other), 404, /branch/)
  })

  test("returns the agent's log, and earlier output", async () => {
    const id = await createStable(client, 'kept')
    const requests: string[] = []
    const stored = [4, 3].map(second => ({
      timestamp: time(second),
      level: 'LOG',
      message: `kept ${second}`,
      later: 1,
    }))
    const answers: Record<string, unknown> = {
      kept: { id, isWhole: true, entries: stored },
      another: { id: 'another', isWhole: true, entries: stored },
      nothing: { samples: [] },
      secretive: {
        ...{ id, isWhole: true },
        entries: [{ timestamp: time(4), level: 'LOG', message: 'no', statement: "ALTER ROLE x PASSWORD 'hunter2'" }],
      },
    }
    let answer: keyof typeof answers | undefined = 'kept'
    agent = (instance, path) => {
      requests.push(path)
      if (answer === undefined) throw new Error('the agent does not answer')
      expect(instance.id).toBe(id)
      return answers[answer]
    }
    const { cluster } = logsOf({ postgres: [line(2, 'printed'), line(1, 'ending log output to stderr')] })
    const before = client.cluster.logs
    client.cluster.logs = cluster.logs
    onTestFinished(() => {
      client.cluster.logs = before
      agent = undefined
    })
    const messages = async (query = '') => {
      const { status, body } = await get(id, query)
      expect(status).toBe(200)
      return body.logs.map(({ message }: { message: string }) => message)
    }
    expect(await messages()).toEqual(['kept 4', 'kept 3', 'printed'])
    expect(await messages(`?max_lines=2&start_time=${time(1)}&end_time=${time(5)}`)).toEqual(['kept 4', 'kept 3'])
    const [since, until] = [Date.parse(time(1)), Date.parse(time(5))]
    expect(requests).toEqual(['/log?most=100', `/log?most=2&since=${since}&until=${until}`])
    for (answer of ['another', 'nothing', undefined]) expect(await messages()).toEqual(['printed'])
    answer = 'secretive'
    expect(JSON.stringify((await get(id)).body)).not.toContain('hunter2')
  })

  test('returns none without a pod, and an error if the cluster does not respond', async () => {
    const id = await createStable(client, 'still')
    expect((await get(id)).body).toEqual({ logs: [] })
    const before = client.cluster.logs
    client.cluster.logs = async () => {
      throw new ClusterError('Unavailable', 'no answer')
    }
    expectError(await get(id), 503)
    client.cluster.logs = before
  })

  test('limits concurrent reads', async () => {
    const id = await createStable(client, 'busy')
    const before = client.cluster.logs
    const { promise, resolve } = Promise.withResolvers<string[]>()
    client.cluster.logs = () => promise
    const requests = numbers(5).map(() => get(id))
    const first = await Promise.race(requests)
    expectError(first, 429)
    resolve([])
    const statuses = (await Promise.all(requests)).map(({ status }) => status)
    client.cluster.logs = before
    expect(statuses.sort()).toEqual([200, 200, 200, 200, 429])
    expect((await get(id)).status).toBe(200)
  })

  test.each([
    ['max_lines=0', /max_lines/],
    ['max_lines=1&max_lines=2', /^max_lines: must occur only once$/],
    ['max_lines=ten', /max_lines/],
    ['start_time=yesterday', /start_time/],
    ['end_time=2026-13-01T00:00:00Z', /end_time/],
    ['start_time=2026-01-02T00:00:00Z&end_time=2026-01-01T00:00:00Z', /start_time.*before end_time/],
    ['lines=5', /lines/],
  ])('400 for %s', async (query, message) => {
    const id = await createStable(client, `bad${query.length}${query.charCodeAt(5)}`)
    expectError(await get(id, `?${query}`), 400, message)
  })

  test('a limit above the maximum is reduced, and the applied limit returned', async () => {
    const id = await createStable(client, 'many')
    expect(await get(id, '?max_lines=1001')).toMatchObject({ status: 200, headers: { 'x-applied-limit': '1000' } })
    expect((await get(id, '')).headers).toMatchObject({ 'x-applied-limit': '100' })
  })

  test('404 for a missing database, and for another account', async () => {
    expectError(await get('00000000-0000-4000-8000-000000000000'), 404, /database/)
    const id = await createStable(client, 'mine')
    expectError(await client.call('GET', `/databases/${id}/logs`, { claims: { tenant: 'other' } }), 404, /database/)
  })
})

describe('the log of a service', () => {
  const json = (second: number, line: object) => `${time(second)} ${JSON.stringify(line)}`

  test('has lines of pino as entries, and other lines unchanged', () => {
    const lines = [
      json(1, { level: 30, time: 1, pid: 7, hostname: 'h', msg: 'listening', port: 3000 }),
      json(2, {
        level: 50,
        time: 2,
        pid: 7,
        hostname: 'h',
        err: { message: 'refused', stack: 'x' },
        msg: 'no connection',
      }),
      `${time(3)} Killed`,
      `${time(4)} {"level":`,
    ]
    expect(serviceEntriesOf(lines)).toEqual([
      { timestamp: time(1), level: 'INFO', message: 'listening', pid: 7, context: '{"port":3000}' },
      { timestamp: time(2), level: 'ERROR', message: 'no connection', pid: 7, detail: 'refused' },
      { timestamp: time(3), level: 'LOG', message: 'Killed' },
      { timestamp: time(4), level: 'LOG', message: '{"level":' },
    ])
  })

  test('contains the output of all pods of the service, newest first, and is refused for a missing service', async () => {
    const client = await startClient()
    onTestFinished(() => client.close())
    const id = await createStable(client, 'serviced', { services: [{ service_type: 'mcp' }] })
    const namespace = tenantNamespace('acme')
    const pod = (name: string, service: string) => ({
      ...{ apiVersion: 'v1' as const, kind: 'Pod' as const },
      metadata: { name, namespace, labels: { [labels.database]: id, [labels.service]: service } },
      spec: { containers: [{ name: 'tools', image: 'espalier' }] },
    })
    await client.cluster.create('Pod', pod('mcp-1', 'mcp'))
    await client.cluster.create('Pod', pod('rest-1', 'rest'))
    const requests: string[] = []
    client.cluster.logs = async (key, { container, previous, tailLines } = {}) => {
      if (previous || container === 'bridge') throw new ClusterError('BadRequest', 'container has not ended')
      requests.push(`${key.name}/${container}`)
      return [1, 2].map(second => json(second, { level: 30, msg: `m${second}` })).slice(-(tailLines ?? 2))
    }
    const answer = await client.call('GET', `/databases/${id}/logs?service=mcp`)
    expect(answer.body.logs.map(({ message }: { message: string }) => message)).toEqual(['m2', 'm1'])
    expect(new Set(requests)).toEqual(new Set(['mcp-1/tools']))
    expectError(
      await client.call('GET', `/databases/${id}/logs?service=rest`),
      400,
      /^service: the database has no rest service/,
    )
    expectError(await client.call('GET', `/databases/${id}/logs?service=psql`), 400, /^service: must be one of/)
  })
})
