/**
 * What the script costs by which HAProxy counts connections that have not logged in: HAProxy with it against the same
 * HAProxy, of the same configuration but for it, before one Postgres, in turns. Queries on sessions that have logged in,
 * sessions one after the other, and the time that one takes. It needs HAProxy and pgbench.
 */
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
const aim = 0.9

/** The configuration without what the script does: the file, its actions, its filter. */
function withoutScript(configuration: string): string {
  const lines = configuration.split('\n')
  const left = lines.filter(line => !/lua-load|lua\.espalier_/.test(line))
  if (lines.length - left.length !== 1 + Object.keys(loginActions).length)
    throw new Error('the configuration has other lines than are known here')
  return left.join('\n')
}

async function compare(name: string, sides: Address[], measure: (address: Address) => Promise<number>, isTime = false) {
  const results: number[][] = []
  for (let round = 0; round < rounds; round++) {
    const each: number[] = []
    // Who comes first changes, so that nobody gains by it.
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) each[index] = await measure(sides[index] as Address)
    results.push(each)
  }
  const of = (index: number) => median(results.map(each => each[index] ?? 0))
  const ratio = median(results.map(([scripted = 0, plain = 0]) => (isTime ? plain / scripted : scripted / plain)))
  const unit = isTime ? 'ms' : 'a second'
  const digits = isTime ? 2 : 0
  print(name, `${against(ratio, aim, 'at least')} (${of(0).toFixed(digits)} against ${of(1).toFixed(digits)} ${unit})`)
}

async function connecting(address: Address): Promise<number> {
  const times: number[] = []
  for (let count = 0; count < 40; count++) {
    const began = performance.now()
    const client = await login(address)
    times.push(performance.now() - began)
    await client.end()
  }
  return median(times)
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
    await until('both admit', async () => acknowledged(version, await cluster.leases(), Date.now()).done)
    const sides = haproxies.map(({ host }): Address => ({ host, port, cert, key }))
    const direct: Address = { host: postgres.host, port: postgres.port, cert, key }
    const tps = (flags: string[]) => async (address: Address) => (await pgbench(address, flags)) ?? 0
    await pgbench(direct, ['-i', '-q', '-s', '5'])
    if ((await pgbench(direct, ['-S', '-t', '1'])) === undefined) print('pgbench', 'not on this machine')
    else {
      await compare('select-only, 16 sessions, TLS', sides, tps(['-S', '-n', '-c', '16', '-j', '2', '-T', '2']))
      await compare('  a new session for each query, 4 at once', sides, tps(['-S', '-n', '-C', '-c', '4', '-T', '2']))
    }
    await compare('  time to connect by TLS, p50', sides, connecting, true)
  } finally {
    for (const gateway of gateways) await gateway.stop({ settleMs: 0 })
    for (const haproxy of haproxies) await haproxy.close()
    await cluster.close()
    await postgres.stop()
  }
}

if (import.meta.main) await main()
