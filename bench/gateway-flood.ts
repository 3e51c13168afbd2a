/**
 * Measures on an embedded installation how a flood of API requests delays new Postgres logins: the time to open a
 * session while one tenant sends GETs as fast as possible, against an idle installation in the same run. Also measures
 * throughput through the gateway against a direct connection, and the memory of the installation's process before its
 * first database. Separate processes send the load.
 *
 *     node bench/gateway-flood.ts [seconds]
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connect, createApiClient, openToThisMachine } from '../e2e/client.ts'
import { createHome } from '../e2e/process.ts'
import { type Address, pgbench } from './pgbench.ts'
import { memoryMiB, processTree } from './processes.ts'
import { against, median, percentile, print } from './statistics.ts'

type Flood = { url: string; token: string; seconds: number }
type Times = { p50: number; p99: number; count: number }

const seconds = Number(process.argv[2] ?? 10)
const requestsAtOnce = 64
const pauseMs = 20
const rounds = 5
/** The flood itself uses CPU, so a part of the delay does not come from the API's event loop. */
const aim = 5

/** Sends GETs for this number of seconds. @returns the responses per second */
async function flood({ url, token, seconds }: Flood): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: requestsAtOnce })
  const headers = { authorization: `Bearer ${token}` }
  const one = () =>
    new Promise<void>((resolve, reject) => {
      get(url, { agent, headers }, response => response.resume().once('end', resolve)).once('error', reject)
    })
  const end = performance.now() + seconds * 1000
  let answered = 0
  const sender = async () => {
    for (; performance.now() < end; answered++) await one()
  }
  await Promise.all(Array.from({ length: requestsAtOnce }, sender))
  agent.destroy()
  return answered / seconds
}

async function startFlood(order: Flood): Promise<{ rate: Promise<number> }> {
  const child = fork(fileURLToPath(import.meta.url), ['flood'])
  child.send(order)
  const rate = once(child, 'message').then(([figure]) => Number(figure))
  return { rate }
}

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

async function logins(connection: Parameters<typeof connect>[0], forSeconds: number): Promise<Times> {
  const times: number[] = []
  for (const end = performance.now() + forSeconds * 1000; performance.now() < end; ) {
    const began = performance.now()
    const client = await connect(connection)
    times.push(performance.now() - began)
    await client.end()
    await pause(pauseMs)
  }
  return { p50: median(times), p99: percentile(times, 0.99), count: times.length }
}

/** Finds the only Postgres among the descendants of a process, and reads its address from postmaster.pid. */
function postgresBelow(pid: number): { host: string; port: number } {
  for (const member of processTree(pid)) {
    const [, flag, directory] = readFileSync(`/proc/${member}/cmdline`, 'utf8').split('\0')
    if (flag !== '-D' || directory === undefined) continue
    const lines = readFileSync(join(directory, 'postmaster.pid'), 'utf8').split('\n')
    return { port: Number(lines[3]), host: lines[5]?.trim() ?? '' }
  }
  throw new Error('no Postgres runs')
}

async function throughput(through: Address, direct: Address): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-flood-'))
  const script = join(directory, 'select.sql')
  writeFileSync(script, 'SELECT 1;\n')
  const kinds = {
    'short queries, 8 sessions, TLS': ['-c', '8'],
    'a session for each query, 4 at once': ['-C', '-c', '4'],
  }
  for (const [name, flags] of Object.entries(kinds)) {
    const results: [number, number][] = []
    for (let round = 0; round < rounds; round++) {
      const measure = async (address: Address) =>
        (await pgbench(address, ['-n', '-f', script, '-T', '2', ...flags])) ?? 0
      results.push([await measure(through), await measure(direct)])
    }
    const ratio = median(results.map(([ours, theirs]) => ours / theirs))
    const rates = [0, 1].map(side => median(results.map(result => result[side] ?? 0)).toFixed(0))
    print(name, `${ratio.toFixed(2)} of direct (${rates.join(' against ')} a second)`)
  }
  rmSync(directory, { recursive: true })
}

async function main(): Promise<void> {
  const home = await createHome(3)
  try {
    const { api: base, token, process: child, readyAfterMs } = await home.run()
    const pid = child.pid ?? 0
    await pause(3_000)
    print('from start to ready', `${readyAfterMs.toFixed(0)} ms`)
    print('memory of the process without databases', `${memoryMiB(pid, 'now').toFixed(0)} MiB`)
    const api = createApiClient(base, token)
    const { body } = await api.create({ name: 'flood', ip_allowlist: openToThisMachine })
    const connection = await api.connection(body.id)
    await logins(connection, 2)
    const quiet = await logins(connection, seconds)
    const url = `${base}/managed/v1/databases/${body.id}`
    const { rate } = await startFlood({ url, token, seconds: seconds + 3 })
    await pause(2_000)
    const flooded = await logins(connection, seconds)
    const show = ({ p50, p99, count }: Times) => `p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, of ${count}`
    print('logins without API requests', show(quiet))
    print(`logins during ${(await rate).toFixed(0)} GET/s of one tenant`, show(flooded))
    print('  p50 relative to no API requests', `${(flooded.p50 / quiet.p50).toFixed(2)} times`)
    print('  p99 relative to no API requests', against(flooded.p99 / quiet.p99, aim, 'at most', ' times'))
    const { username: user, password, database } = connection
    const who = { user, password, database }
    await throughput({ host: connection.host, port: connection.port, ...who }, { ...postgresBelow(pid), ...who })
  } finally {
    await home.remove()
  }
}

if (process.argv[2] === 'flood')
  process.once('message', (order: Flood) => void flood(order).then(rate => process.send?.(rate, () => process.exit())))
else if (import.meta.main) await main()
