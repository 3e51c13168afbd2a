/** The gateway in front of a real Postgres, with real clients. psql is tested if it is installed. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { type RunningPostgres, startPostgres } from '../operator/postgres/testing/postgres.ts'
import { acknowledged, type Route } from '../routes/route.ts'
import { type Gateway, startGateway } from './index.ts'
import { errorFields, packet, startupMessage } from './testing/client.ts'
import { openTestCluster, type TestCluster } from './testing/cluster.ts'
import { freePort, ownLoopback, received, until } from './testing/sockets.ts'

const host = ownLoopback()
const denied = { C: '28000', M: 'no rule of the allowlist of shop-12345678 admits 127.0.0.1' }

let postgres: RunningPostgres
/** The superuser's certificate, which Postgres requires. */
let identity: { cert: string; key: string }
let cluster: TestCluster
let gateway: Gateway
let port: number
let down = false

beforeAll(async () => {
  postgres = await startPostgres({ major: '18', shape: { connections: 80 } })
  identity = issueClientCertificate(postgres.authority, { commonName: 'espalier-operator' })
  cluster = await openTestCluster()
  port = await freePort(host)
  gateway = await startGateway({
    cluster: cluster.faulty,
    identity: 'one',
    listenHost: host,
    // The certificate has the same authority and name as the database's, so that clients that verify names also get the
    // error.
    certificate: issueServerCertificate(postgres.authority, { dnsNames: [postgres.target.serverName] }),
    resolve: () => (down ? undefined : postgres),
    logger: pino({ level: 'silent' }),
    denialLimits: { perAddress: { perSecond: 1000, burst: 1000 } },
    // A login by certificate has fewer messages than a login by password, so it counts until its timeout.
    loginLimits: { perAddress: 60, perRoute: 60 },
  })
})
afterAll(async () => {
  await gateway?.stop({ drainMs: 0 })
  await cluster?.close()
  await postgres?.stop()
})

/** Applies these rules. */
async function allow(...rules: string[]): Promise<void> {
  const target: Route['target'] = { namespace: 'espalier-t-1', service: 'db-1', port: 5432 }
  const version = await cluster.putRoute({ databaseId: 'id', label: 'shop-12345678', port, target, rules })
  await until('the route is acknowledged', async () => acknowledged(version, await cluster.leases(), Date.now()).done)
}

/** Both ends verify the other's certificate, so a client that logs in has used TLS with Postgres itself. */
const verified = () => ({ ca: postgres.ca, servername: postgres.target.serverName, ...identity })
const unverified = { rejectUnauthorized: false }

async function login(ssl: pg.ClientConfig['ssl'] = verified()): Promise<pg.Client> {
  const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres', ssl })
  client.on('error', () => {})
  onTestFinished(() => client.end())
  await client.connect()
  return client
}

describe('an admitted client', () => {
  test('uses TLS with Postgres itself', async () => {
    await allow('127.0.0.1/32')
    const client = await login()
    const { rows } = await client.query('select ssl, version from pg_stat_ssl where pid = pg_backend_pid()')
    expect(rows).toEqual([{ ssl: true, version: 'TLSv1.3' }])
  })

  test('with direct TLS', async () => {
    await allow('127.0.0.0/8')
    const socket = connectTls({ host, port, ...verified(), ALPNProtocols: ['postgresql'] })
    onTestFinished(() => void socket.destroy())
    await once(socket, 'secureConnect')
    expect(socket.alpnProtocol).toBe('postgresql')
    socket.write(packet(3 * 65536, Buffer.from('user\0postgres\0database\0postgres\0\0')))
    const [bytes] = await once(socket, 'data')
    // AuthenticationOk
    expect(bytes.subarray(0, 9).toString('hex')).toBe('520000000800000000')
  })

  test('can cancel its query', async () => {
    await allow('127.0.0.1/32')
    const client = await login()
    const sleeping = expect(client.query('select pg_sleep(60)')).rejects.toMatchObject({ code: '57014' })
    const watcher = await login()
    await until('the query runs', async () => {
      const { rows } = await watcher.query(
        "select 1 from pg_stat_activity where query like '%sleep(60)%' and state = 'active'",
      )
      return rows.length > 1
    })
    const key = Buffer.alloc(8)
    // The client has its BackendKeyData, but its types do not have it.
    key.writeInt32BE(Reflect.get(client, 'processID'), 0)
    key.writeInt32BE(Reflect.get(client, 'secretKey'), 4)
    connect({ host, port }).end(packet(80877102, key))
    await sleeping
  })

  test('gets a large result completely', async () => {
    await allow('127.0.0.1/32')
    const client = await login()
    const { rows } = await client.query("select repeat('x', 20000000) as text")
    expect(rows[0].text.length).toBe(20_000_000)
  })
})

test('if a rule is removed while 50 sessions are open, no session is closed, and new sessions are refused', async () => {
  await allow('127.0.0.1/32')
  const sessions = await Promise.all(Array.from({ length: 50 }, () => login()))
  const pids = () =>
    Promise.all(sessions.map(async each => (await each.query('select pg_backend_pid() as pid')).rows[0].pid))
  const before = await pids()
  await allow('10.0.0.0/8')
  await expect(login()).rejects.toMatchObject({ code: '28000', message: denied.M })
  expect(await pids()).toEqual(before)
  expect(gateway.connections()).toBeGreaterThanOrEqual(50)
})

describe('a denied client gets the reason', () => {
  beforeAll(() => allow('10.0.0.0/8'))

  test.each<[string, pg.ClientConfig['ssl']]>([
    ['with TLS, verifying the server name', undefined],
    ['with TLS', unverified],
    ['without TLS', false],
  ])('pg %s', async (_name, ssl) => {
    await expect(login(ssl)).rejects.toMatchObject({ code: denied.C, message: denied.M, severity: 'FATAL' })
  })

  test('with direct TLS', async () => {
    const socket = connectTls({ host, port, ...unverified, ALPNProtocols: ['postgresql'] })
    await once(socket, 'secureConnect')
    socket.write(startupMessage(2))
    expect(errorFields(await received(socket))).toMatchObject(denied)
  })
})

test('a client of a missing database gets the reason', async () => {
  await allow('127.0.0.1/32')
  down = true
  onTestFinished(() => {
    down = false
  })
  await expect(login(unverified)).rejects.toMatchObject({
    code: '57P03',
    message: 'the database is not available now',
  })
})

const hasPsql = spawnSync('psql', ['--version']).status === 0

describe.skipIf(!hasPsql)('psql', () => {
  test.each(['require', 'disable'])('gets the reason with sslmode=%s', async mode => {
    await allow('10.0.0.0/8')
    expect(await psql(`sslmode=${mode}`)).toContain(`FATAL:  ${denied.M}`)
  })

  test('is admitted', async () => {
    await allow('127.0.0.1/32')
    const directory = await mkdtemp(join(tmpdir(), 'espalier-gateway-psql-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const files = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') }
    await writeFile(files.cert, identity.cert)
    await writeFile(files.key, identity.key, { mode: 0o600 })
    expect(await psql(`sslmode=require sslcert=${files.cert} sslkey=${files.key}`)).toBe('it works\n')
  })
})

async function psql(options: string): Promise<string> {
  const address = `host=${host} port=${port} user=postgres dbname=postgres connect_timeout=10 ${options}`
  const child = spawn('psql', [address, '-XAtc', "select 'it works'"], { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  await once(child, 'close')
  return Buffer.concat(output).toString()
}
