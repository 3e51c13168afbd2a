/**
 * An admitted address opens many silent connections, in front of a real Postgres, with either data plane. Meanwhile
 * other clients and the operator log in at once, and a pool gets all of its connections.
 */
import { once } from 'node:events'
import { Socket } from 'node:net'
import { setTimeout as passed } from 'node:timers/promises'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { type RunningPostgres, startPostgres } from '../operator/postgres/testing/postgres.ts'
import { acknowledged, type Route } from '../routes/route.ts'
import { startHaproxyGateway } from './haproxy/index.ts'
import { startGateway } from './index.ts'
import { loginLimits } from './logins.ts'
import { errorFields, gssRequest, packet, startupMessage, tlsRequest } from './testing/client.ts'
import { openTestCluster, type TestCluster } from './testing/cluster.ts'
import { haproxyVersion, openHaproxy } from './testing/haproxy.ts'
import { freePort, ownLoopback, received, until } from './testing/sockets.ts'

const logger = pino({ level: process.env.ESPALIER_TEST_LOG || 'silent' })
const password = 'a password of some length'
const attacker = '127.0.0.66'

/** The bytes that a client sends before TLS, in the listed pieces, and its TLS version. */
type Way = { before: Buffer[][]; tls: ConnectionOptions }
const ways: Record<string, Way> = {
  'in TLS 1.3': { before: [[tlsRequest]], tls: {} },
  'in TLS 1.2': { before: [[tlsRequest]], tls: { maxVersion: 'TLSv1.2' } },
  'having asked for GSSAPI': { before: [[gssRequest], [tlsRequest]], tls: {} },
  'asking in pieces': { before: [[tlsRequest.subarray(0, 4), tlsRequest.subarray(4)]], tls: {} },
  'beginning with TLS': { before: [], tls: {} },
  'having TLS negotiated anew': { before: [[tlsRequest]], tls: { ecdhCurve: 'X448:P-256' } },
}
const version3 = 3 * 65536
/** SASLInitialResponse (Postgres manual, "SCRAM-SHA-256 Authentication"). */
const firstOfScram = ((): Buffer => {
  const first = 'n,,n=,r=rOprNGfwEbeRWgbNEkqO'
  const body = Buffer.concat([Buffer.from('SCRAM-SHA-256\0'), Buffer.of(0, 0, 0, first.length), Buffer.from(first)])
  const head = Buffer.alloc(5)
  head.write('p')
  head.writeUInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
})()
let serial = 0

type Front = { host: string; port: number; metrics(): Promise<string>; stop(): Promise<void> }
type Start = (cluster: TestCluster, postgres: RunningPostgres) => Promise<Front>

const certificateOf = (postgres: RunningPostgres) =>
  issueServerCertificate(postgres.authority, { dnsNames: [postgres.target.serverName] })
const denialLimits = { perAddress: { perSecond: 1000, burst: 1000 }, total: { perSecond: 1000, burst: 1000 } }

async function admitAll(cluster: TestCluster, route: Route): Promise<void> {
  const version = await cluster.putRoute(route)
  await until('the route is acknowledged', async () => acknowledged(version, await cluster.leases(), Date.now()).done)
}
const routeOn = (port: number, target: number): Route => ({
  databaseId: 'id',
  label: 'shop-12345678',
  port,
  target: { namespace: 'espalier-t-1', service: 'db-1', port: target },
  rules: ['127.0.0.0/8'],
})

const planes: Record<string, Start> = {
  'in one process': async (cluster, postgres) => {
    const host = ownLoopback()
    const port = await freePort(host)
    const gateway = await startGateway({
      cluster: cluster.operator,
      identity: 'one',
      listenHost: host,
      certificate: certificateOf(postgres),
      resolve: () => postgres,
      denialLimits,
      logger,
    })
    await admitAll(cluster, routeOn(port, postgres.port))
    return { host, port, metrics: () => gateway.registry.metrics(), stop: () => gateway.stop({ drainMs: 0 }) }
  },
}
if (haproxyVersion === undefined) test.skip('logins with HAProxy: needs haproxy on this machine', () => {})
else
  planes[`with HAProxy ${haproxyVersion}`] = async (cluster, postgres) => {
    const haproxy = await openHaproxy()
    const gateway = await startHaproxyGateway({
      cluster: cluster.operator,
      identity: 'one',
      paths: haproxy.paths,
      ports: haproxy.ports,
      certificate: certificateOf(postgres),
      denialLimits,
      heartbeatMs: 50,
      logger,
    })
    const route = routeOn(haproxy.ports.first, postgres.port)
    await cluster.putService(route.target, postgres.host)
    await admitAll(cluster, route)
    const stop = async () => {
      await gateway.stop({ settleMs: 0 })
      await haproxy.close()
    }
    return { host: haproxy.host, port: route.port, metrics: () => gateway.registry.metrics(), stop }
  }

describe.each(Object.entries(planes))('%s', (_, start) => {
  let postgres: RunningPostgres
  let cluster: TestCluster
  let front: Front
  let operator: pg.Client

  const asOperator = async (): Promise<pg.Client> => {
    const { cert, key } = issueClientCertificate(postgres.authority, { commonName: 'espalier-operator' })
    const { host, port, ca, serverName } = postgres.target
    const client = new pg.Client({
      host,
      port,
      user: 'postgres',
      database: 'postgres',
      ssl: { ca, servername: serverName, cert, key },
      connectionTimeoutMillis: 5_000,
    })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  beforeAll(async () => {
    postgres = await startPostgres({ major: '18', shape: { connections: 110 } })
    cluster = await openTestCluster()
    front = await start(cluster, postgres)
    operator = await asOperator()
    await operator.query(`CREATE ROLE shopper LOGIN PASSWORD '${password}'`)
  })
  afterAll(async () => {
    await operator?.end()
    await front?.stop()
    await cluster?.close()
    await postgres?.stop()
  })

  const dial = (from: string, onFinished = onTestFinished): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = new Socket({ allowHalfOpen: true })
      onFinished(() => void socket.destroy())
      socket.once('error', reject)
      socket.connect({ host: front.host, port: front.port, localAddress: from }, () => {
        socket.off('error', reject).on('error', () => {})
        resolve(socket)
      })
    })
  /** Logs in with a password from an address. */
  const login = async (from: string, onFinished = onTestFinished): Promise<pg.Client> => {
    const client = new pg.Client({
      user: 'shopper',
      password,
      database: 'postgres',
      ssl: { ca: postgres.ca, servername: postgres.target.serverName },
      stream: () => {
        const socket = new Socket()
        const connect = socket.connect.bind(socket)
        socket.connect = () => connect({ host: front.host, port: front.port, localAddress: from })
        return socket
      },
    })
    client.on('error', () => {})
    onFinished(() => client.end().catch(() => {}))
    await client.connect()
    return client
  }
  /** Opens connections that request TLS and then send nothing more. */
  const fallSilent = (from: string, count: number, onFinished = onTestFinished) =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const socket = await dial(from, onFinished)
        const silent = { socket, answer: '' }
        socket.once('data', data => {
          silent.answer = String(data)
        })
        socket.write(tlsRequest)
        return silent
      }),
    )
  /** The number of these connections that Postgres has answered. */
  const answered = (silent: { answer: string }[]): number => silent.filter(({ answer }) => answer === 'S').length

  test('a client with many silent connections is refused, and blocks neither other clients nor the operator', async () => {
    const silent = await fallSilent(attacker, 200)
    await until(
      'Postgres has answered the maximum of connections per address',
      () => answered(silent) >= loginLimits.perAddress,
    )

    const began = performance.now()
    const other = await login('127.0.0.7')
    expect(performance.now() - began).toBeLessThan(3_000)
    expect((await other.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await (await asOperator()).end()
    expect(answered(silent)).toBe(loginLimits.perAddress)

    // The next connection is refused at once with the reason, because too many already wait.
    await fallSilent(attacker, 60)
    const further = await dial(attacker)
    further.write(startupMessage())
    expect(errorFields(await received(further))).toMatchObject({
      C: '53300',
      M: `too many connections to shop-12345678 from ${attacker} that have not logged in`,
    })
  })

  test('connections that send nothing do not block other clients of their address', async () => {
    await Promise.all(Array.from({ length: 300 }, () => dial('127.0.3.1')))
    const began = performance.now()
    const client = await login('127.0.3.1')
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    expect(performance.now() - began).toBeLessThan(3_000)
  })

  /** Performs logins up to the password request. Returns how many connections reached it. */
  const awaitPasswordRequests = async (from: string, count: number, { before, tls }: Way): Promise<() => number> => {
    let passwordRequests = 0
    const one = async () => {
      const socket = await dial(from)
      for (const bytes of before) {
        for (const [index, piece] of bytes.entries()) {
          socket.write(piece)
          if (index < bytes.length - 1) await new Promise(resolve => setTimeout(resolve, 50))
        }
        await once(socket, 'data')
      }
      const secured = connectTls({ socket, rejectUnauthorized: false, ALPNProtocols: ['postgresql'], ...tls })
      secured.on('error', () => {})
      await once(secured, 'secureConnect')
      secured.write(packet(version3, Buffer.from('user\0shopper\0database\0postgres\0\0')))
      await once(secured, 'data')
      secured.write(firstOfScram)
      await once(secured, 'data')
      passwordRequests++
    }
    for (let index = 0; index < count; index++) void one().catch(() => {})
    await until(
      'Postgres has requested the maximum of passwords per address',
      () => passwordRequests >= loginLimits.perAddress,
    )
    return () => passwordRequests
  }

  test.each(Object.entries(ways))(
    'a client that does not answer the password request has few login slots, %s',
    async (_, way) => {
      const from = `127.0.1.${++serial}`
      const passwordRequests = await awaitPasswordRequests(from, 60, way)
      // Two rounds take twice as long as a login of another client.
      for (let round = 0; round < 2; round++) await (await login('127.0.0.7')).end()
      expect(passwordRequests()).toBe(loginLimits.perAddress)
    },
    30_000,
  )

  test('two silent addresses do not use up all login slots', async () => {
    const silent = [...(await fallSilent('127.0.2.1', 100)), ...(await fallSilent('127.0.2.2', 100))]
    await until(
      'Postgres has answered the maximum of connections per address',
      () => answered(silent) >= loginLimits.perAddress,
    )
    const began = performance.now()
    await login('127.0.0.7')
    expect(performance.now() - began).toBeLessThan(3_000)
  }, 30_000)

  // The next two tests wait longer than a login may take, so they run at the same time.
  test.concurrent('a silent login is ended after 10 seconds, and its slot is free again', async ({
    onTestFinished,
  }) => {
    const silent = await fallSilent('127.0.0.8', loginLimits.perAddress, onTestFinished)
    await until('Postgres has answered all silent connections', () => answered(silent) === silent.length)
    const closed = silent.map(({ socket }) => received(socket))
    const began = performance.now()
    await Promise.all(closed)
    expect(performance.now() - began).toBeLessThan(13_000)
    expect((await (await login('127.0.0.8', onTestFinished)).query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }])
  }, 60_000)

  test.concurrent('a logged-in client may stay idle without limit', async ({ onTestFinished }) => {
    const silent = await Promise.all(Array.from({ length: 3 }, () => login('127.0.0.11', onTestFinished)))
    const errors: Error[] = []
    for (const client of silent) client.on('error', error => errors.push(error))
    // Waits longer than the login timeout.
    await passed(loginLimits.slotMs + 2_000)
    expect(errors).toEqual([])
    for (const client of silent) expect((await client.query('SELECT 5 AS five')).rows).toEqual([{ five: 5 }])
  })

  test('the gauges show how many connections log in and wait, in total and per database, until no such connections exist', async () => {
    const read = async (): Promise<Record<string, number>> =>
      Object.fromEntries(
        [...(await front.metrics()).matchAll(/^espalier_gateway_((?:database_)?logins\S*) (\S+)$/gm)].map(
          ([, name = '', value]) => [name, Number(value)],
        ),
      )
    const database = '{database="shop-12345678"}'
    await until('the logins of earlier tests have ended', async () => (await read()).logins === 0, 20_000)
    expect(await read()).toEqual({ logins: 0, logins_waiting: 0 })
    const silent = await fallSilent('127.0.0.11', 10)
    await until(
      'Postgres has answered the maximum of connections per address',
      () => answered(silent) === loginLimits.perAddress,
    )
    const taken = { logins: loginLimits.perAddress, logins_waiting: 10 - loginLimits.perAddress }
    await until(
      'all waiting connections are counted',
      async () => (await read()).logins_waiting === taken.logins_waiting,
    )
    expect(await read()).toEqual({
      ...taken,
      [`database_logins${database}`]: taken.logins,
      [`database_logins_waiting${database}`]: taken.logins_waiting,
    })
    for (const { socket } of silent) socket.destroy()
    await until('every gauge is 0', async () => Object.values(await read()).every(value => value === 0))
    expect(await read()).toEqual({ logins: 0, logins_waiting: 0 })
  }, 60_000)

  test('a pool opens 100 connections from one address at once; after login they no longer count', async () => {
    const clients = await Promise.all(Array.from({ length: 100 }, () => login('127.0.0.9')))
    const answers = await Promise.all(clients.map(client => client.query('SELECT 3 AS three')))
    expect(answers.every(({ rows }) => rows[0].three === 3)).toBe(true)
    const began = performance.now()
    await login('127.0.0.9')
    expect(performance.now() - began).toBeLessThan(3_000)
  })

  test('repeated failed logins do not block other clients', async () => {
    for (let round = 0; round < 3 * loginLimits.perAddress; round++) {
      const socket = await dial('127.0.0.10')
      socket.write(startupMessage())
      await received(socket)
    }
    expect((await (await login('127.0.0.10')).query('SELECT 4 AS four')).rows).toEqual([{ four: 4 }])
  })
})
