/**
 * Measures the gateway as it runs in a pod: a real HAProxy, and the agent as a separate process.
 * - an allowlist change, from the write of its ConfigMap to the acknowledgement, with 100 routes of 50 rules and 100
 *   open sessions. The benchmark checks that the previous rules then apply to no connection, and no session closes;
 * - pgbench with SELECTs from 16 TLS clients, and the time to connect, through HAProxy against a direct connection;
 * - the transfer of 1,000 routes of 50 rules after a restart of HAProxy, and the memory of HAProxy and agent then.
 *
 * The benchmark needs HAProxy, and pgbench for one figure.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { leanFlags } from '../bin/lean.mjs'
import { startHaproxyGateway } from '../gateway/haproxy/index.ts'
import type { Paths } from '../gateway/haproxy/paths.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { openTestCluster, type TestCluster } from '../gateway/testing/cluster.ts'
import { haproxyVersion, openHaproxy, type TestHaproxy } from '../gateway/testing/haproxy.ts'
import { anyLogins } from '../gateway/testing/logins.ts'
import { until } from '../gateway/testing/sockets.ts'
import { issueClientCertificate } from '../operator/pki/index.ts'
import { startPostgres } from '../operator/postgres/testing/postgres.ts'
import { acknowledged, type Route } from '../routes/route.ts'
import { type Address, login, pgbench } from './pgbench.ts'
import { connectParent, serve } from './remote.ts'
import { against, median, percentile, print } from './statistics.ts'

const ports = { first: 20_000, last: 21_099 }
/** The port of the gateway that forwards to Postgres. */
const front = ports.last

const routeOn = (port: number, rules: string[], targetPort = 5432): Route => ({
  databaseId: 'id',
  label: `db-${port}`,
  port,
  target: { namespace: 'espalier-t-1', service: 'postgres', port: targetPort },
  rules,
})
const someRules = (count: number, seed: number) =>
  Array.from({ length: count }, (_, rule) => `${1 + (seed % 200)}.${rule}.${seed % 256}.0/24`)

/** Writes a route, and polls the Leases until every gateway has acknowledged it. @returns the duration in ms */
async function change(cluster: TestCluster, route: Route): Promise<number> {
  const began = performance.now()
  const version = await cluster.putRoute(route)
  while (!acknowledged(version, await cluster.leases(), Date.now()).done)
    await new Promise(resolve => setTimeout(resolve, 1))
  return performance.now() - began
}

const opensTo = (targetPort: number, rules: string[]) => routeOn(front, rules, targetPort)

async function allowlistChanges(cluster: TestCluster, address: Address, targetPort: number): Promise<void> {
  const sessions = await Promise.all(Array.from({ length: 100 }, () => login(address)))
  const times: number[] = []
  let wrong = 0
  for (let index = 0; index < 200; index++) {
    const open = index % 2 === 1
    times.push(await change(cluster, opensTo(targetPort, [...someRules(49, index), ...(open ? ['127.0.0.1/32'] : [])])))
    const admitted = await login(address).then(
      client => client.end().then(() => true),
      () => false,
    )
    if (admitted !== open) wrong++
    // HAProxy limits refused clients that reconnect too often. This benchmark does not measure that limit.
    if (!open) await new Promise(resolve => setTimeout(resolve, 20))
  }
  const queries = await Promise.allSettled(sessions.map(session => session.query('select 1')))
  await Promise.all(sessions.map(session => session.end().catch(() => {})))
  const [p50, p95] = [percentile(times, 0.5), percentile(times, 0.95)]
  print('allowlist change: from the write until acknowledged', `p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms`)
  print('  p95 in seconds', against(p95 / 1000, 1, 'at most', ' s'))
  print('  wrong decisions afterwards', `${against(wrong, 0, 'at most')} of 200`)
  print(
    '  disconnected sessions',
    `${against(queries.filter(({ status }) => status === 'rejected').length, 0, 'at most')} of 100`,
  )
}

async function throughput(direct: Address, through: Address): Promise<void> {
  const compare = async (name: string, flags: string[], aim: number | undefined) => {
    const rounds: (readonly [number | undefined, number | undefined])[] = []
    for (let round = 0; round < 5; round++) rounds.push([await pgbench(direct, flags), await pgbench(through, flags)])
    const ratios = rounds.map(([without, within]) => (within ?? 0) / (without ?? 1))
    const detail = `${median(rounds.map(([, within]) => within ?? 0)).toFixed(0)} against ${median(rounds.map(([without]) => without ?? 0)).toFixed(0)} a second`
    const ratio = median(ratios)
    print(name, `${aim === undefined ? ratio.toFixed(2) : against(ratio, aim, 'at least')} of direct (${detail})`)
  }
  await pgbench(direct, ['-i', '-q', '-s', '10'])
  if ((await pgbench(direct, ['-S', '-t', '1'])) === undefined) print('pgbench', 'not on this machine')
  else {
    await compare('pgbench select-only, 16 clients, TLS', ['-S', '-n', '-c', '16', '-j', '2', '-T', '4'], 0.85)
    await compare('  prepared statements', ['-S', '-n', '-M', 'prepared', '-c', '16', '-j', '2', '-T', '4'], undefined)
    await compare('  a new session for each', ['-S', '-n', '-C', '-c', '4', '-j', '2', '-T', '3'], undefined)
  }
  const connecting = async (address: Address) => {
    const began = performance.now()
    const client = await login(address)
    const took = performance.now() - began
    await client.end()
    return took
  }
  const [without, within]: [number[], number[]] = [[], []]
  for (let round = 0; round < 100; round++) {
    without.push(await connecting(direct))
    within.push(await connecting(through))
  }
  print(
    'time to connect by TLS, p50',
    `${median(within).toFixed(1)} ms against ${median(without).toFixed(1)} ms direct`,
  )
}

const residentMiB = (pid: number): string => {
  const kB = Number(/^VmRSS:\s+([0-9]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  return `${(kB / 1024).toFixed(0)} MiB`
}

async function restart(cluster: TestCluster, haproxy: TestHaproxy, agent: ChildProcess): Promise<void> {
  const routes = 1_000
  for (let index = 0; index < routes; index++)
    await cluster.putRoute(routeOn(ports.first + index, someRules(50, index)))
  await change(cluster, routeOn(ports.first, someRules(50, 0)))
  const times: number[] = []
  for (let round = 0; round < 5; round++) {
    await haproxy.kill('SIGKILL')
    await haproxy.start()
    const began = performance.now()
    await until('HAProxy has received its deadline', async () =>
      (await haproxy.runCommand(`get map ${haproxy.paths.state} deadline`)).includes('found=yes'),
    )
    times.push(performance.now() - began)
  }
  const entries = (await haproxy.runCommand(`show map ${haproxy.paths.allow}`)).split('\n').length
  print(
    `HAProxy restarted, ${routes.toLocaleString('en')} routes of 50 rules`,
    `${entries.toLocaleString('en')} entries`,
  )
  print('  until it has all routes and admits clients', against(median(times) / 1000, 3, 'at most', ' s'))
  const one: number[] = []
  for (let index = 0; index < 100; index++)
    one.push(await change(cluster, routeOn(ports.first + index, someRules(49, index))))
  print(
    '  one change afterwards, p50 and p95',
    `${percentile(one, 0.5).toFixed(1)} ms, ${percentile(one, 0.95).toFixed(1)} ms`,
  )
  print('  memory of HAProxy', residentMiB(haproxy.pid()))
  print('  memory of the agent', residentMiB(agent.pid ?? 0))
}

async function main(): Promise<void> {
  if (haproxyVersion === undefined) {
    console.log('HAProxy is not on this machine: nothing is measured')
    return
  }
  const postgres = await startPostgres({ major: '18', shape: { connections: 150 } })
  const { cert, key } = issueClientCertificate(postgres.authority, { commonName: 'espalier-operator' })
  const cluster = await openTestCluster()
  const haproxy = await openHaproxy({ ports, logins: anyLogins })
  print('HAProxy', haproxyVersion)
  const agent = fork(fileURLToPath(import.meta.url), ['agent', JSON.stringify(haproxy.paths)], {
    serialization: 'advanced',
    execArgv: leanFlags,
  })
  // The child uses only the cluster, so `serve` needs no Postgres.
  serve(agent, cluster.faulty, {} as never)
  try {
    await cluster.putService(routeOn(front, []).target, postgres.host)
    for (let index = 0; index < 100; index++) await cluster.putRoute(routeOn(ports.first + index, someRules(50, index)))
    await change(cluster, opensTo(postgres.port, ['0.0.0.0/0']))
    const through: Address = { host: haproxy.host, port: front, cert, key }
    await allowlistChanges(cluster, through, postgres.port)
    await change(cluster, opensTo(postgres.port, ['0.0.0.0/0']))
    await throughput({ ...through, host: postgres.host, port: postgres.port }, through)
    await restart(cluster, haproxy, agent)
  } finally {
    agent.kill('SIGKILL')
    await once(agent, 'exit')
    await haproxy.close()
    await cluster.close()
    await postgres.stop()
  }
}

if (process.argv[2] === 'agent') {
  const paths: Paths = JSON.parse(process.argv[3] ?? '')
  await startHaproxyGateway({
    cluster: connectParent().cluster,
    identity: 'bench',
    paths,
    ports,
    certificate: testCertificate('gateway.test'),
    denialLimits: { perAddress: { perSecond: 1e6, burst: 1e6 } },
    logger: pino({ level: 'error' }),
  })
} else if (import.meta.main) await main()
