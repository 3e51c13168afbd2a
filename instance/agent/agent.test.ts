/**
 * The agent next to a real Postgres: which clients the agent answers, what it measures, and what it stores.
 */
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectSecurely } from 'node:tls'
import pg from 'pg'
import pino from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type CertifiedKey,
  createAuthority,
  issueClientCertificate,
  issueServerCertificate,
} from '../../operator/pki/index.ts'
import { createAdministrator } from '../../operator/postgres/administrator.ts'
import { monitorCommonName, operatorCommonName } from '../../operator/postgres/configuration.ts'
import { connectAs, instanceId, type RunningPostgres, startPostgres } from '../../operator/postgres/testing/postgres.ts'
import { nameIn, readCertificates } from './certificates.ts'
import { type Agent, type AgentOptions, startAgent } from './index.ts'
import type { Sample } from './measures.ts'
import { query } from './postgres.ts'
import { monitoredFrom, monitorRole, sampleQuery } from './query.ts'
import { startServer } from './server.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const logger = pino({ level: 'silent' })
const host = '127.0.0.1'

let server: RunningPostgres
beforeAll(async () => {
  server = await startPostgres({ major: '18', shape: { connections: 3 } })
  const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
  await administrator.ensureRoles(
    server.target,
    async () => ({ passwords, passwordVersion: 'first' }),
    new AbortController().signal,
  )
  const monitor = issueClientCertificate(server.authority, { commonName: monitorCommonName(instanceId) })
  writeFileSync(join(server.mounts.tls, 'monitor.crt'), monitor.cert)
  writeFileSync(join(server.mounts.tls, 'monitor.key'), monitor.key)
})
afterAll(() => server?.stop())

const started: Agent[] = []
const lines: string[] = []
afterEach(async () => {
  await Promise.all(started.splice(0).map(agent => agent.stop()))
  rmSync(state(), { recursive: true, force: true })
  lines.length = 0
})

const state = () => join(server.mounts.root, 'agent')
async function start(options: Partial<AgentOptions> = {}): Promise<Agent> {
  const { volume: data, tls } = server.mounts
  const agent = await startAgent({
    ...{ id: instanceId, host, port: 0, postgresPort: server.port, data, tls, state: state() },
    log: line => lines.push(line),
    ...options,
  })
  started.push(agent)
  return agent
}

type Answer = { status: number | undefined; body: string }
function get({ port }: Agent, path: string, client?: CertifiedKey, method = 'GET'): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const options = { host, port, path, method, agent: false, ca: server.ca, servername: 'db.test.svc', ...client }
  const sent = request(options, response => {
    let body = ''
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      body += chunk
    })
    response.on('end', () => resolve({ status: response.statusCode, body }))
  })
  sent.on('error', reject)
  sent.end()
  return promise
}
const client = (commonName: string, authority = server.authority) => issueClientCertificate(authority, { commonName })
const samplesOf = async (agent: Agent, since = 0): Promise<Sample[]> =>
  JSON.parse((await get(agent, `/samples?since=${since}`, client('espalier-api'))).body).samples
const untilSampled = (agent: Agent) =>
  expect.poll(async () => (await samplesOf(agent)).length, { timeout: 10_000 }).toBeGreaterThan(0)

describe('the agent answers', () => {
  test('metrics and samples requests of the API, metrics requests of a collector, and liveness checks of any client', async () => {
    const agent = await start()
    const [api, metrics] = [client('espalier-api'), client('espalier-metrics')]
    const unauthorized = [undefined, client('espalier-gateway'), client('espalier-api', createAuthority())]
    expect(await get(agent, '/healthz')).toEqual({ status: 200, body: 'ok\n' })
    for (const other of unauthorized) {
      expect((await get(agent, '/metrics', other)).status).toBe(401)
      expect((await get(agent, '/samples', other)).status).toBe(401)
      expect((await get(agent, '/nothing', other)).status).toBe(401)
    }
    expect((await get(agent, '/metrics', metrics)).status).toBe(200)
    expect((await get(agent, '/samples', metrics)).status).toBe(403)
    expect((await get(agent, '/samples', api)).status).toBe(200)
    expect((await get(agent, '/nothing', api)).status).toBe(404)
    expect((await get(agent, '/constructor', api)).status).toBe(404)
    expect((await get(agent, '/samples', api, 'POST')).status).toBe(405)
    expect((await get(agent, '/log', api)).status).toBe(404)
    const operator = client('espalier-operator')
    expect((await get(agent, '/samples', operator)).status).toBe(403)
    // The agent in this test does not archive.
    for (const path of ['/archive', `/backups/${instanceId}`])
      expect((await get(agent, path, operator)).status).toBe(404)
  })

  test.each<[string, (port: number) => Socket]>([
    ['nothing', port => connect({ host, port })],
    [
      'half of a request',
      port => {
        const socket = connectSecurely({ host, port, ca: server.ca, servername: 'db.test.svc' })
        return socket.once('secureConnect', () => socket.write('GET /healthz HTTP/1.1\r\n'))
      },
    ],
    [
      'a request one letter at a time',
      port => {
        const socket = connectSecurely({ host, port, ca: server.ca, servername: 'db.test.svc' })
        let talking: NodeJS.Timeout | undefined
        socket.once('secureConnect', () => {
          socket.write('GET /healthz HTTP/1.1\r\nhost: a')
          talking = setInterval(() => socket.write('a'), 50)
        })
        return socket.once('close', () => clearInterval(talking))
      },
    ],
  ])('again, after a timeout has closed the 40 connections of clients that sent %s', async (_, come) => {
    const { port, ...agent } = await start({ timeoutMs: 300 })
    const unauthorized = Array.from({ length: 40 }, () => come(port).on('error', () => {}))
    const lives = () => get({ port, ...agent }, '/healthz').catch(() => undefined)
    await expect.poll(lives, { timeout: 5_000 }).toEqual({ status: 200, body: 'ok\n' })
    for (const socket of unauthorized) socket.destroy()
  })

  test('with the newest certificate, or with the previous certificate if the newest is invalid', async () => {
    const tls = join(server.mounts.root, 'replaced')
    cpSync(server.mounts.tls, tls, { recursive: true })
    onTestFinished(() => rmSync(tls, { recursive: true }))
    const shown = async (port: number) => {
      const socket = connectSecurely({ host, port, ca: server.ca, servername: 'db.test.svc' })
      await once(socket, 'secureConnect')
      const { fingerprint256 } = socket.getPeerCertificate()
      socket.destroy()
      return fingerprint256
    }
    const { port, follow, stop } = await startServer({
      ...{ host, port: 0, tls, routes: {} },
      log: line => lines.push(line),
    })
    onTestFinished(stop)
    const before = await shown(port)
    const { cert, key } = issueServerCertificate(server.authority, { dnsNames: ['db.test.svc'] })
    writeFileSync(join(tls, 'tls.crt'), cert)
    writeFileSync(join(tls, 'tls.key'), key)
    follow()
    const after = await shown(port)
    expect(after).not.toBe(before)
    expect(after).toBe(new X509Certificate(cert).fingerprint256)
    writeFileSync(join(tls, 'tls.crt'), 'nonsense')
    follow()
    expect(await shown(port)).toBe(after)
    expect(lines.join()).toMatch(/^cannot load the certificate; keeping the previous one: /)
  })

  test('until it is stopped; a silent client does not delay the stop', async () => {
    const agent = await start()
    const { promise: connected, resolve } = Promise.withResolvers<void>()
    const other = connect({ host, port: agent.port }, resolve).on('error', () => {})
    await connected
    await get(agent, '/healthz')
    const begun = performance.now()
    await agent.stop()
    expect(performance.now() - begun).toBeLessThan(5_000)
    other.destroy()
  })

  test('an invalid request with an error, and logs nothing', async () => {
    const agent = await start()
    expect((await get(agent, '//')).status).toBe(400)
    expect(lines.filter(line => line.startsWith('cannot answer'))).toEqual([])
  })

  test("requests for the log only from the API, and never with another owner's log", async () => {
    const log = join(server.mounts.root, 'log')
    mkdirSync(log)
    writeFileSync(join(log, 'owner'), instanceId)
    const entry = (second: number) => ({ timestamp: `2026-01-02 00:00:0${second}.000 UTC`, error_severity: 'LOG' })
    const lines = [1, 2, 3].map(second => JSON.stringify({ ...entry(second), message: `entry ${second}` }))
    writeFileSync(join(log, 'postgres-20260102T000000.json'), `${lines.join('\n')}\n`)
    const passedOn: string[] = []
    const agent = await start({ logDirectory: log, passOn: text => passedOn.push(text) })
    expect((await get(agent, '/log')).status).toBe(401)
    expect((await get(agent, '/log', client('espalier-metrics'))).status).toBe(403)
    const read = async (query: string) => JSON.parse((await get(agent, `/log${query}`, client('espalier-api'))).body)
    const of = (second: number) => ({
      ...{ timestamp: `2026-01-02T00:00:0${second}.000Z`, level: 'LOG', message: `entry ${second}` },
    })
    expect(await read('')).toEqual({ id: instanceId, isWhole: true, entries: [of(3), of(2), of(1)] })
    const [since, until] = [of(2), of(3)].map(({ timestamp }) => Date.parse(timestamp))
    expect((await read(`?since=${since}&until=${until}`)).entries).toEqual([of(2)])
    expect(await read('?most=1')).toEqual({ id: instanceId, isWhole: false, entries: [of(3)] })
    expect((await read('?since=x&most=-1')).entries).toHaveLength(3)
    await expect.poll(() => passedOn.join('').split('\n').length).toBe(4)
    writeFileSync(join(log, 'owner'), 'another')
    expect(await read('')).toEqual({ id: instanceId, isWhole: true, entries: [] })
  })
})

describe('a sample', () => {
  test('contains the state of Postgres and its volume, and is available as metrics', async () => {
    const app = await connectAs(server, 'app', passwords.app)
    await app.query('BEGIN')
    const agent = await start()
    await untilSampled(agent)
    await app.query('ROLLBACK')
    await app.end()
    const [sample] = await samplesOf(agent)
    expect(sample?.values).toMatchObject({
      up: 1,
      connections: 1,
      connections_idle_in_transaction: 1,
      connections_limit: 3,
      replicas: 0,
      replication_lag_bytes: null,
      checksum_failures: 0,
      locks_waiting: 0,
    })
    for (const measure of ['wal_bytes', 'volume_used_bytes', 'database_bytes', 'transaction_age'] as const)
      expect(sample?.values[measure]).toBeGreaterThan(0)
    expect(await samplesOf(agent, (sample?.at ?? 0) + 1)).toEqual([])
    const { body } = await get(agent, '/metrics', client('espalier-metrics'))
    expect(body).toContain(`\nespalier_postgres_connections{espalier_id="${instanceId}"} 1\n`)
    expect(body).toContain('# TYPE espalier_postgres_transactions_committed counter\n')
    expect(body).not.toContain('replication_lag')
    expect(body).toMatch(/\n# EOF\n$/)
  })

  test('is taken even if clients use all their connections', async () => {
    const sessions = await Promise.all([1, 2, 3].map(() => connectAs(server, 'app', passwords.app)))
    await expect(connectAs(server, 'app', passwords.app)).rejects.toThrow('remaining connection slots')
    const agent = await start()
    await untilSampled(agent)
    expect((await samplesOf(agent)).at(-1)?.values).toMatchObject({ connections: 3, connections_limit: 3 })
    await Promise.all(sessions.map(session => session.end()))
  })

  test('counts the sessions of clients, and names the current WAL file', async () => {
    const { cert, ca, monitor } = readCertificates(server.mounts.tls)
    if (monitor === undefined) throw new Error('the login certificate does not exist')
    const login = { host, port: server.port, user: monitorRole, database: monitoredFrom, serverName: nameIn(cert) }
    const stirred = async () => {
      const [answer] = await query({ ...login, ...monitor, ca }, [sampleQuery], 5_000)
      const { sessions, wal_bytes, wal_file } = JSON.parse(answer ?? '')
      return { sessions, wal_bytes, writtenAt: statSync(join(server.mounts.volume, 'pgdata/pg_wal', wal_file)).mtimeMs }
    }
    const before = await stirred()
    expect(await stirred()).toEqual(before)
    const app = await connectAs(server, 'app', passwords.app)
    await app.end()
    await expect.poll(stirred).toEqual({ ...before, sessions: before.sessions + 1 })
    const writer = await connectAs(server, 'app', passwords.app)
    await writer.query('CREATE TABLE news ()')
    expect((await stirred()).writtenAt).toBeGreaterThan(before.writtenAt)
    await writer.end()
  })

  test('is taken in a session that then ends, so that users can create databases', async () => {
    const agent = await start()
    await untilSampled(agent)
    const owner = new pg.Client({
      ...{ host, port: server.port, user: 'postgres', database: 'template1' },
      ssl: { ...client(operatorCommonName), ca: server.ca, servername: server.target.serverName },
    })
    await owner.connect()
    const sessions = async () =>
      (await owner.query("SELECT count(*)::int AS count FROM pg_stat_activity WHERE usename = 'espalier_monitor'")).rows
    await expect.poll(sessions).toEqual([{ count: 0 }])
    await owner.end()
  })
})

describe('stored samples', () => {
  test('are available after a restart, without a truncated line', async () => {
    const first = await start()
    await untilSampled(first)
    const before = await samplesOf(first)
    await first.stop()
    const path = join(state(), 'samples.ndjson')
    writeFileSync(path, `${readFileSync(path, 'utf8')}{"at":17`)
    const second = await start()
    expect((await samplesOf(second)).slice(0, before.length)).toEqual(before)
  })

  test('are optional: without a state directory, the agent stores nothing', async () => {
    const agent = await start()
    rmSync(state(), { recursive: true, force: true })
    await untilSampled(agent)
    expect(existsSync(state())).toBe(false)
  })
})

describe('an unreachable Postgres', () => {
  test('causes no sample for the first 60 s, and then samples with `up` 0', async () => {
    let time = 0
    const agent = await start({ postgresPort: 1, now: () => time })
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(await samplesOf(agent)).toEqual([])
    time = 61_000
    await untilSampled(agent)
    const [sample] = await samplesOf(agent)
    expect(sample?.values).toMatchObject({ up: 0, connections: null })
    expect(sample?.values.volume_size_bytes).toBeGreaterThan(0)
    expect(lines.join()).toMatch(/no sample: .*ECONNREFUSED/)
  })
})
