/**
 * Measures the gateway. Each figure has a baseline in the same run:
 * - an allowlist change, from the write of its ConfigMap until every gateway has acknowledged it, against the write
 *   alone, with 100 routes and 100 open sessions. The benchmark checks that the gateway admits no refused address after
 *   the acknowledgement, and closes no session;
 * - throughput through the gateway against a direct connection: bytes without Postgres, and over TLS a large result,
 *   short queries and new sessions;
 * - the route table with 5,000 routes of 50 rules.
 *
 * A separate process sends the load, so that it does not run in the gateway's thread.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Readable } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import pino from 'pino'
import { systemNamespace } from '../crds/metadata.ts'
import { startGateway } from '../gateway/index.ts'
import { buildTable, decideConnection, withRoute } from '../gateway/table.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { packet } from '../gateway/testing/client.ts'
import { openTestCluster, type TestCluster } from '../gateway/testing/cluster.ts'
import { anyLogins } from '../gateway/testing/logins.ts'
import { freePort, listen, ownLoopback } from '../gateway/testing/sockets.ts'
import { issueClientCertificate } from '../operator/pki/index.ts'
import { startPostgres } from '../operator/postgres/testing/postgres.ts'
import { acknowledged, type Route, routeKey, routeName } from '../routes/route.ts'
import { against, median, percentile, print } from './statistics.ts'

/** An address, and the client certificate for the login. */
type Address = { host: string; port: number; cert: string; key: string }
type Load = { kind: 'bytes' | 'bulk' | 'short' | 'sessions'; address: Address }
/** A message to a load process: a measurement, or the order to serve bytes without Postgres. */
type Order = Load | { kind: 'source'; host: string }

const sslOf = ({ cert, key }: Address) => ({ rejectUnauthorized: false, cert, key })
const login = async (address: Address): Promise<pg.Client> => {
  const { host, port } = address
  const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres', ssl: sslOf(address) })
  client.on('error', () => {})
  await client.connect()
  return client
}

const ownHost = ownLoopback()

const routeOn = (port: number, rules: string[], service = 'postgres'): Route => ({
  databaseId: 'id',
  label: `db-${port}`,
  port,
  target: { namespace: 'espalier-t-1', service, port: 5432 },
  rules,
})
const someRules = (count: number, seed: number) =>
  Array.from({ length: count }, (_, rule) => `${1 + (seed % 200)}.${rule}.${seed % 256}.0/24`)

/** Writes a route, and polls the Leases until every gateway has acknowledged it. @returns both durations in ms */
async function change(cluster: TestCluster, route: Route): Promise<{ write: number; total: number }> {
  const began = performance.now()
  const version = await cluster.putRoute(route)
  const write = performance.now() - began
  while (!acknowledged(version, await cluster.leases(), Date.now()).done)
    await new Promise(resolve => setTimeout(resolve, 1))
  return { write, total: performance.now() - began }
}

async function allowlistChanges(cluster: TestCluster, address: Address): Promise<void> {
  for (let index = 1; index < 100; index++)
    await cluster.putRoute(routeOn(await freePort(ownHost), someRules(50, index)))
  await change(cluster, routeOn(address.port, ['0.0.0.0/0']))
  const sessions = await Promise.all(Array.from({ length: 100 }, () => login(address)))
  const times: { write: number; total: number }[] = []
  let wrong = 0
  for (let index = 0; index < 200; index++) {
    const open = index % 2 === 1
    times.push(
      await change(cluster, routeOn(address.port, [...someRules(49, index), ...(open ? ['127.0.0.1/32'] : [])])),
    )
    const admitted = await login(address).then(
      client => client.end().then(() => true),
      () => false,
    )
    if (admitted !== open) wrong++
  }
  const queries = await Promise.allSettled(sessions.map(session => session.query('select 1')))
  await Promise.all(sessions.map(session => session.end().catch(() => {})))
  const disconnected = queries.filter(result => result.status === 'rejected').length
  const total = times.map(time => time.total)
  const write = median(times.map(time => time.write))
  const [p50, p95] = [percentile(total, 0.5), percentile(total, 0.95)]
  print('allowlist change: from the write until acknowledged', `p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms`)
  print('  relative to the write alone', `p50 ${(p50 / write).toFixed(1)} times`)
  print('  p95 in seconds', against(p95 / 1000, 1, 'at most', ' s'))
  print('  wrong decisions afterwards', `${against(wrong, 0, 'at most')} of 200`)
  print('  disconnected sessions', `${against(disconnected, 0, 'at most')} of 100`)
}

const loadSeconds = 1
const bulkBytes = 192 * 1024 * 1024

/** Measures the bytes per second of one query's result, which it does not parse. */
async function bulk(address: Address): Promise<number> {
  const socket = connectTls({
    host: address.host,
    port: address.port,
    ...sslOf(address),
    ALPNProtocols: ['postgresql'],
  })
  await once(socket, 'secureConnect')
  socket.write(packet(3 * 65536, Buffer.from('user\0postgres\0database\0postgres\0\0')))
  await once(socket, 'data')
  const text = Buffer.from(`copy (select repeat('x', 8000) from generate_series(1, ${bulkBytes / 8000})) to stdout\0`)
  const head = Buffer.from('Q\0\0\0\0')
  head.writeUInt32BE(text.length + 4, 1)
  const began = performance.now()
  socket.write(Buffer.concat([head, text]))
  return await drained(socket, bulkBytes, began)
}

/** Measures the bytes per second without Postgres and TLS: the maximum of the gateway. */
async function bytes(address: Address): Promise<number> {
  const socket = connect(address)
  await once(socket, 'connect')
  const began = performance.now()
  socket.write('go')
  return await drained(socket, 4 * bulkBytes, began)
}

async function drained(stream: Readable, atLeast: number, began: number): Promise<number> {
  let size = 0
  for await (const chunk of stream) {
    size += chunk.length
    if (size >= atLeast) break
  }
  stream.destroy()
  return size / ((performance.now() - began) / 1000)
}

/** Starts a server that sends bytes without end to each client that sends data. @returns its port */
async function source(host: string): Promise<number> {
  const block = Buffer.alloc(256 * 1024)
  const { port } = await listen(host, socket => {
    const pump = () => {
      while (socket.write(block));
    }
    socket
      .on('error', () => {})
      .on('drain', pump)
      .once('data', pump)
  })
  return port
}

/** Measures the queries per second of eight sessions. Each session sends one query at a time. */
async function short(address: Address): Promise<number> {
  const clients = await Promise.all(Array.from({ length: 8 }, () => login(address)))
  let count = 0
  const until = performance.now() + loadSeconds * 1000
  await Promise.all(
    clients.map(async client => {
      for (; performance.now() < until; count++) await client.query('select $1::int', [count])
    }),
  )
  await Promise.all(clients.map(client => client.end()))
  return count / loadSeconds
}

/** Measures how many sessions per second can be opened and closed, four at a time. */
async function sessions(address: Address): Promise<number> {
  let count = 0
  const until = performance.now() + loadSeconds * 1000
  const open = async () => {
    for (; performance.now() < until; count++) await (await login(address)).end()
  }
  await Promise.all([open(), open(), open(), open()])
  return count / loadSeconds
}

async function order(what: Order): Promise<{ figure: number; child: ChildProcess }> {
  const child = fork(fileURLToPath(import.meta.url), ['load'], { stdio: 'inherit' })
  child.send(what)
  const [figure] = await once(child, 'message')
  return { figure, child }
}

async function measured(load: Load): Promise<number> {
  const { figure, child } = await order(load)
  child.kill()
  return figure
}

type Pair = { direct: Address; through: Address }

async function throughput(postgres: Pair, bare: Pair): Promise<void> {
  const compare = async (name: string, kind: Load['kind'], pair: Pair, unit: number, unitName: string) => {
    const figures: { direct: number; through: number }[] = []
    for (let round = 0; round < 3; round++)
      figures.push({
        direct: await measured({ kind, address: pair.direct }),
        through: await measured({ kind, address: pair.through }),
      })
    const [without, within] = [median(figures.map(each => each.direct)), median(figures.map(each => each.through))]
    const detail = `${(within / unit).toFixed(0)} against ${(without / unit).toFixed(0)} ${unitName}`
    print(name, `${(within / without).toFixed(2)} of direct (${detail})`)
  }
  await compare('bare bytes', 'bytes', bare, 1024 * 1024, 'MiB/s')
  await compare('bulk data by TLS', 'bulk', postgres, 1024 * 1024, 'MiB/s')
  await compare('short queries by TLS, 8 sessions', 'short', postgres, 1, 'a second')
  await compare('new sessions by TLS, 4 at a time', 'sessions', postgres, 1, 'a second')
}

function tableFigures(): void {
  const configMaps = Array.from({ length: 5000 }, (_, index) => {
    const port = 10_000 + index
    const metadata = { name: routeName(port), namespace: systemNamespace }
    const data = { [routeKey]: JSON.stringify(routeOn(port, someRules(50, index))) }
    return { apiVersion: 'v1' as const, kind: 'ConfigMap' as const, metadata, data }
  })
  const timed = (run: () => void): number => {
    const began = performance.now()
    run()
    return performance.now() - began
  }
  let { table } = buildTable(configMaps)
  const build = median(Array.from({ length: 5 }, () => timed(() => buildTable(configMaps))))
  const changes = configMaps.slice(0, 200)
  const changing = timed(() => {
    for (const configMap of changes) table = withRoute(table, configMap).table
  })
  const verdicts = 1_000_000
  const judging = timed(() => {
    for (let index = 0; index < verdicts; index++)
      decideConnection(table, 10_000 + (index % 5000), `${index % 256}.${index % 50}.7.9`)
  })
  print('5,000 routes of 50 rules: read', `${build.toFixed(0)} ms`)
  print('  one change', `${((changing / changes.length) * 1000).toFixed(0)} us`)
  print('  one decision', `${((judging / verdicts) * 1e6).toFixed(0)} ns`)
}

async function main(): Promise<void> {
  const postgres = await startPostgres({ major: '18', shape: { connections: 120 } })
  const { cert, key } = issueClientCertificate(postgres.authority, { commonName: 'espalier-operator' })
  const at = (port: number, host = ownHost): Address => ({ host, port, cert, key })
  const cluster = await openTestCluster()
  const address = at(await freePort(ownHost))
  const bare = at(await freePort(ownHost))
  const { figure: sourcePort, child } = await order({ kind: 'source', host: ownHost })
  const direct = at(sourcePort)
  const gateway = await startGateway({
    cluster: cluster.operator,
    identity: 'bench',
    listenHost: ownHost,
    certificate: testCertificate('gateway.test'),
    resolve: ({ service }) => (service === 'bare' ? direct : postgres),
    denialLimits: { perAddress: { perSecond: 1e6, burst: 1e6 } },
    loginLimits: anyLogins,
    logger: pino({ level: 'error' }),
  })
  try {
    await allowlistChanges(cluster, address)
    await change(cluster, routeOn(bare.port, ['127.0.0.1/32'], 'bare'))
    await throughput({ direct: at(postgres.port, postgres.host), through: address }, { direct, through: bare })
    tableFigures()
  } finally {
    child.kill()
    await gateway.stop({ drainMs: 0 })
    await cluster.close()
    await postgres.stop()
  }
}

if (process.argv[2] === 'load') {
  const loads = { bytes, bulk, short, sessions }
  process.once('message', (what: Order) => {
    const figure = what.kind === 'source' ? source(what.host) : loads[what.kind](what.address)
    void figure.then(value => process.send?.(value))
  })
} else if (import.meta.main) await main()
