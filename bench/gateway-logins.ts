/**
 * Measures the cost of the script with which HAProxy counts connections that have not logged in: HAProxy with the
 * script against HAProxy without it, in turn and with the same Postgres. Measures queries on open sessions, the rate of
 * new sessions, and the duration of one new session. For each, it also measures HAProxy's processor time, which hardly
 * depends on the load of the machine. The benchmark needs HAProxy and pgbench.
 */
import { readdirSync, readFileSync } from 'node:fs'
import pino from 'pino'
import { type HaproxyGateway, startHaproxyGateway } from '../gateway/haproxy/index.ts'
import { loginActions } from '../gateway/haproxy/logins.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { openTestCluster } from '../gateway/testing/cluster.ts'
import { haproxyVersion, openHaproxy, type TestHaproxy } from '../gateway/testing/haproxy.ts'
import { until } from '../gateway/testing/sockets.ts'
import { issueClientCertificate } from '../operator/pki/index.ts'
import { startPostgres } from '../operator/postgres/testing/postgres.ts'
import { acknowledged, type Route } from '../routes/route.ts'
import { type Address, login, pgbench } from './pgbench.ts'
import { against, median, print } from './statistics.ts'

const rounds = 5
const seconds = 2
const aim = 0.9

/** Removes the script's file, actions and filter from HAProxy's configuration. */
function withoutScript(configuration: string): string {
  const lines = configuration.split('\n')
  const withoutLua = lines.filter(line => !/lua-load|lua\.espalier_/.test(line))
  if (lines.length - withoutLua.length !== 1 + Object.keys(loginActions).length)
    throw new Error('the configuration has lines of the script that this benchmark does not know')
  return withoutLua.join('\n')
}

/** One side of the comparison: its address, and the process id of its HAProxy. */
type Side = { address: Address; pid: number }
/** The result of a measurement, and the number of measured transactions or sessions. */
type Measured = { result: number; count: number }

/** Returns the processor time of a process since its start, in microseconds. */
function processorTime(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const times = threads.map(thread =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  )
  return times.reduce((sum, time) => sum + time, 0) / 1_000
}

async function compare(
  name: string,
  sides: Side[],
  unit: 'a second' | 'ms',
  measure: (address: Address) => Promise<Measured>,
) {
  const rates: number[][] = []
  const costs: number[][] = []
  for (let round = 0; round < rounds; round++) {
    const [rate, cost]: [number[], number[]] = [[], []]
    // The order alternates, so that neither side has an advantage.
    for (const [index, side] of round % 2 === 0 ? [...sides.entries()] : [...sides.entries()].reverse()) {
      const before = processorTime(side.pid)
      const { result, count } = await measure(side.address)
      if (result === 0) throw new Error(`${name}: a measurement failed`)
      rate[index] = result
      cost[index] = (processorTime(side.pid) - before) / count
    }
    rates.push(rate)
    costs.push(cost)
  }
  const of = (results: number[][], index: number) => median(results.map(each => each[index] ?? 0))
  const ratioOf = (results: number[][]) => median(results.map(([scripted = 0, plain = 0]) => scripted / plain))
  const [ratio, digits] = unit === 'ms' ? [1 / ratioOf(rates), 2] : [ratioOf(rates), 0]
  const texts = [0, 1].map(index => of(rates, index).toFixed(digits))
  print(name, `${against(ratio, aim, 'at least')} (${texts.join(' against ')} ${unit})`)
  const times = [0, 1].map(index => of(costs, index).toFixed(1))
  print("    HAProxy's processor time for each", `${ratioOf(costs).toFixed(2)} (${times.join(' against ')} µs)`)
}

async function connecting(address: Address): Promise<Measured> {
  const times: number[] = []
  for (let count = 0; count < 40; count++) {
    const began = performance.now()
    const client = await login(address)
    times.push(performance.now() - began)
    await client.end()
  }
  return { result: median(times), count: times.length }
}

async function main(): Promise<void> {
  if (haproxyVersion === undefined) {
    console.log('HAProxy is not on this machine: nothing is measured')
    return
  }
  print('HAProxy', haproxyVersion)
  const postgres = await startPostgres({ major: '18', shape: { connections: 150 } })
  const { cert, key } = issueClientCertificate(postgres.authority, { commonName: 'espalier-operator' })
  const cluster = await openTestCluster()
  const haproxies: TestHaproxy[] = []
  const gateways: HaproxyGateway[] = []
  try {
    for (const rewrite of [undefined, withoutScript]) {
      const haproxy = await openHaproxy({}, rewrite)
      haproxies.push(haproxy)
      const { paths, ports } = haproxy
      const identity = rewrite === undefined ? 'with' : 'without'
      const certificate = testCertificate('gateway.test')
      const logger = pino({ level: 'error' })
      gateways.push(await startHaproxyGateway({ cluster: cluster.faulty, identity, paths, ports, certificate, logger }))
    }
    const port = haproxies[0]?.ports.first ?? 0
    const target = { namespace: 'espalier-t-1', service: 'postgres', port: postgres.port }
    const route: Route = { databaseId: 'id', label: 'db', port, target, rules: ['127.0.0.0/8'] }
    await cluster.putService(target, postgres.host)
    const version = await cluster.putRoute(route)
    await until(
      'both gateways have acknowledged the route',
      async () => acknowledged(version, await cluster.leases(), Date.now()).done,
    )
    const direct: Address = { host: postgres.host, port: postgres.port, cert, key }
    // The user logs in with a password, as clients do: the script must detect the end of this login.
    const user = { user: 'shopper', password: 'a password of some length' }
    const sides = haproxies.map(({ host, pid }): Side => ({ address: { host, port, ...user }, pid: pid() }))
    const superuser = await login(direct)
    await superuser.query(`CREATE ROLE ${user.user} LOGIN PASSWORD '${user.password}' IN ROLE pg_read_all_data`)
    await superuser.end()
    const tps = (flags: string[]) => async (address: Address) => {
      const result = (await pgbench(address, [...flags, '-T', String(seconds)])) ?? 0
      return { result, count: result * seconds }
    }
    await pgbench(direct, ['-i', '-q', '-s', '5'])
    if ((await pgbench(direct, ['-S', '-t', '1'])) === undefined) print('pgbench', 'not on this machine')
    else {
      await compare('select-only, 16 sessions, TLS', sides, 'a second', tps(['-S', '-n', '-c', '16', '-j', '2']))
      await compare('a new session for each query, 4 at once', sides, 'a second', tps(['-S', '-n', '-C', '-c', '4']))
    }
    await compare('time to connect by TLS, p50', sides, 'ms', connecting)
  } finally {
    for (const gateway of gateways) await gateway.stop({ settleMs: 0 })
    for (const haproxy of haproxies) await haproxy.close()
    await cluster.close()
    await postgres.stop()
  }
}

if (import.meta.main) await main()
