/** Several processes of one service, as `espalier rest` starts them: restarts after a kill, reloads, and shutdown. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest'
import { type Answer, sendRequest, until } from '../testing/client.ts'
import { freePort, startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { configurationFile } from './testing/service.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE authenticator LOGIN NOINHERIT; GRANT anon TO authenticator;
  CREATE SCHEMA api;
  CREATE FUNCTION api.wait() RETURNS text LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(1); SELECT ''done''';
  CREATE TABLE api.numbers AS SELECT generate_series(1, 50) AS id;
  GRANT USAGE ON SCHEMA api TO anon;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;`

/** For the tests at the end: they mostly wait, so they run concurrently, with separate locks and connections. */
const databases = ['tried', 'stopped', 'silent1', 'silent2']
let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  for (const name of databases) await postgres.run(`CREATE DATABASE ${name} TEMPLATE postgres`, 'template1')
})
afterAll(() => postgres?.stop())

type Started = {
  child: ChildProcess
  /** Exit code, or the signal that ended it. */
  ended: Promise<number | string | null>
  log: string[]
  adminPort: number
  file: string
  keys: Record<string, string | number>
}
type OnFinished = TestContext['onTestFinished']

/** Starts the command as the leader of a process group, and ends the group with the test. */
async function launch(
  onFinished: OnFinished,
  own: Record<string, string | number>,
  database = 'postgres',
): Promise<Started> {
  const adminPort = await freePort()
  const keys = {
    'db-uri': postgres.uri('authenticator', database),
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-pool': 5,
    'server-workers': 2,
    'server-host': '127.0.0.1',
    'admin-server-port': adminPort,
    'admin-server-config-enabled': 'true',
    'log-level': 'info',
    ...own,
  }
  const file = join(postgres.directory, `rest-${database}.conf`)
  writeFileSync(file, configurationFile(keys))
  const command = fileURLToPath(new URL('../../bin/espalier.mjs', import.meta.url))
  const child = spawn(process.execPath, [command, 'rest', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  const ended = new Promise<number | string | null>(resolve =>
    child.once('exit', (code, signal) => resolve(signal ?? code)),
  )
  const log: string[] = []
  child.stderr
    .setEncoding('utf8')
    .on('data', (text: string) => log.push(...text.split('\n').filter(line => line !== '')))
  onFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await ended
  })
  return { child, ended, log, adminPort, file, keys }
}

async function start(...wanted: Parameters<typeof launch>): Promise<Started> {
  const launched = await launch(...wanted)
  await until(() => isReady(launched.adminPort))
  return launched
}

const signalGroup = ({ child }: Started, signal: NodeJS.Signals) => process.kill(-(child.pid ?? Number.NaN), signal)

const isReady = (port: number): Promise<boolean> =>
  sendRequest(port, '/ready', {}, new Agent()).then(
    ({ status }) => status === 200,
    () => false,
  )
/** The processes that have logged that they read the schema, oldest first. */
const workersOf = ({ log }: Started): number[] => [
  ...new Set(log.filter(line => line.includes('schema cache loaded')).map(line => Number(JSON.parse(line).pid))),
]
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
const isRefused = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket
      .once('error', () => resolve(true))
      .once('connect', () => {
        socket.destroy()
        resolve(false)
      })
  })
/** Holds the lock that `wait` needs, until the client ends. */
async function block(database?: string): Promise<pg.Client> {
  const blocker = new pg.Client(postgres.uri('postgres', database))
  await blocker.connect()
  await blocker.query('SELECT pg_advisory_lock(1)')
  return blocker
}
const waiting = async (blocker: pg.Client): Promise<number> =>
  (
    await blocker.query(
      "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'authenticator' AND datname = current_database()",
    )
  ).rowCount ?? 0
const rowsOf = ({ text }: Answer): number => JSON.parse(text).length

test('two workers on one port: all requests are answered, a killed worker is restarted, SIGHUP reloads both, SIGTERM ends both', async ({
  onTestFinished,
}) => {
  const port = await freePort()
  const running = await start(onTestFinished, { 'server-port': port })
  // Each request has its own connection, so that both workers receive some.
  const read = () => sendRequest(port, '/numbers', {}, new Agent())
  const reads = (count: number) => Promise.all(Array.from({ length: count }, read))
  expect((await reads(40)).map(rowsOf)).toEqual(Array.from({ length: 40 }, () => 50))
  const [first = 0, second = 0] = workersOf(running)
  expect(workersOf(running)).toHaveLength(2)
  const metrics = (await sendRequest(running.adminPort, '/metrics')).text
  expect(metrics).toContain('rst_requests_total{method="GET",status="200"} 40')
  expect(metrics).toContain('rst_db_pool_max 5')

  process.kill(first, 'SIGKILL')
  await until(async () => !(await isReady(running.adminPort)))
  const without = await sendRequest(running.adminPort, '/metrics')
  expect(without.status).toBe(200)
  // The sum includes the ended worker's counts.
  expect(without.text).toContain('rst_requests_total{method="GET",status="200"} 40')
  expect((await reads(10)).map(rowsOf)).toEqual(Array.from({ length: 10 }, () => 50))
  await until(() => isReady(running.adminPort))
  const third = workersOf(running).at(-1) ?? 0
  expect(workersOf(running)).toEqual([first, second, third])
  expect((await reads(20)).map(rowsOf)).toEqual(Array.from({ length: 20 }, () => 50))

  writeFileSync(running.file, configurationFile({ ...running.keys, 'db-max-rows': 2 }))
  running.child.kill('SIGHUP')
  await until(async () => (await reads(10)).every(answer => rowsOf(answer) === 2))
  await until(async () => (await sendRequest(running.adminPort, '/config')).text.includes('db-max-rows = 2'))

  running.child.kill('SIGTERM')
  expect(await running.ended).toBe(0)
  expect([second, third].filter(isRunning)).toEqual([])
})

test('two workers listen on a socket file that an earlier run has left', async ({ onTestFinished }) => {
  const socketPath = join(postgres.directory, 'rest.sock')
  writeFileSync(socketPath, '')
  const running = await start(onTestFinished, { 'server-unix-socket': socketPath })
  const read = () => sendRequest(0, '/numbers', { socketPath }, new Agent())
  expect((await Promise.all(Array.from({ length: 20 }, read))).map(rowsOf)).toEqual(
    Array.from({ length: 20 }, () => 50),
  )
  const [first = 0] = workersOf(running)
  process.kill(first, 'SIGKILL')
  await until(() => workersOf(running).length === 3)
  await until(() => isReady(running.adminPort))
  expect((await Promise.all(Array.from({ length: 20 }, read))).map(rowsOf)).toEqual(
    Array.from({ length: 20 }, () => 50),
  )
})

test('workers share a port with another process, and the admin server shows the schema cache of one of them', async ({
  onTestFinished,
}) => {
  const port = await freePort()
  const running = await start(onTestFinished, { 'server-port': port, 'server-reuseport': 'true' })
  const cache = JSON.parse((await sendRequest(running.adminPort, '/schema_cache')).text)
  expect(Object.keys(cache.tables.api)).toEqual(['numbers'])
  const other = createServer().listen({ port, host: '127.0.0.1', reusePort: true })
  await once(other, 'listening')
  other.close()
  await once(other, 'close')
  const reads = await Promise.all(Array.from({ length: 20 }, () => sendRequest(port, '/numbers', {}, new Agent())))
  expect(reads.map(rowsOf)).toEqual(Array.from({ length: 20 }, () => 50))
  running.child.kill('SIGTERM')
  expect(await running.ended).toBe(0)
})

test('a port that is in use ends all processes, as it ends a single process', async ({ onTestFinished }) => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => {
    taken.close()
  })
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo // The server listens on a TCP port.
  const running = await launch(onTestFinished, { 'server-port': port })
  expect(await running.ended).toBe(1)
  expect(running.log.join('\n')).toMatch(/EADDRINUSE.*the workers cannot start$/s)
  expect(running.log.join('\n')).not.toContain('restarted')
})

test('all processes receive the signals: reloads end no process, and after SIGTERM each process finishes its requests', async ({
  onTestFinished,
}) => {
  const port = await freePort()
  // Enough connections for all requests below in either worker: the kernel distributes requests randomly.
  const running = await start(onTestFinished, { 'server-port': port, 'db-pool': 8 })
  const loaded = (count: number) => running.log.filter(line => line.includes('schema cache loaded')).length >= count
  for (const [index, signal] of (['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const).entries()) {
    signalGroup(running, signal)
    await until(() => loaded(4 + 2 * index))
  }
  expect(running.log.filter(line => /a worker has ended|Debugger/.test(line))).toEqual([])

  const blocker = await block()
  const answers = Array.from({ length: 4 }, () => sendRequest(port, '/rpc/wait', {}, new Agent()))
  await until(async () => (await waiting(blocker)) === 4)
  signalGroup(running, 'SIGTERM')
  // No process listens any more: each has received the signal, and will receive it again from the first process.
  await until(() => isRefused(port))
  await blocker.end()
  expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(Array.from({ length: 4 }, () => '"done"'))
  expect(await running.ended).toBe(0)
})

test.concurrent('a worker that cannot start is retried, while the other worker serves', async ({ onTestFinished }) => {
  const port = await freePort()
  const running = await start(onTestFinished, { 'server-port': port }, 'tried')
  const [first = 0] = workersOf(running)
  writeFileSync(running.file, 'nonsense')
  process.kill(first, 'SIGKILL')
  await until(() => running.log.filter(line => line.startsWith('espalier rest: configuration file')).length === 2)
  expect(rowsOf(await sendRequest(port, '/numbers', {}, new Agent()))).toBe(50)
  expect(await isReady(running.adminPort)).toBe(false)
  writeFileSync(running.file, configurationFile(running.keys))
  await until(() => isReady(running.adminPort))
})

test.concurrent('a stopped worker: /ready reports it, /metrics has its last report, and it ends with the other processes', async ({
  onTestFinished,
}) => {
  const port = await freePort()
  const running = await start(onTestFinished, { 'server-port': port }, 'stopped')
  await Promise.all(Array.from({ length: 20 }, () => sendRequest(port, '/numbers', {}, new Agent())))
  const total = 'rst_requests_total{method="GET",status="200"} 20'
  await until(async () => (await sendRequest(running.adminPort, '/metrics')).text.includes(total))
  const [first = 0] = workersOf(running)
  process.kill(first, 'SIGSTOP')
  await until(async () => !(await isReady(running.adminPort)))
  expect((await sendRequest(running.adminPort, '/metrics')).text).toContain(total)
  const blocker = await block('stopped')
  onTestFinished(() => blocker.end())
  // One connection may wait for the stopped worker.
  for (let request = 0; request < 3; request++) sendRequest(port, '/rpc/wait', {}, new Agent()).catch(() => {})
  await until(async () => (await waiting(blocker)) >= 2)
  running.child.kill('SIGTERM')
  expect(await running.ended).toBe(0)
  expect(isRunning(first)).toBe(false)
  // The workers have cancelled the queries of requests that exceeded the timeout.
  expect(await waiting(blocker)).toBe(0)
})

test.concurrent.for([1, 2])(
  '%i: an unresponsive database does not keep any of them from ending',
  async (workers, { onTestFinished }) => {
    const database = `silent${workers}`
    const running = await start(
      onTestFinished,
      { 'server-workers': workers, 'server-port': await freePort() },
      database,
    )
    const { rows } = await postgres.run(
      `SELECT pid FROM pg_stat_activity WHERE datname = '${database}' AND usename = 'authenticator'`,
    )
    for (const { pid } of rows) process.kill(pid, 'SIGSTOP')
    onTestFinished(() => {
      for (const { pid } of rows) process.kill(pid, 'SIGCONT')
    })
    running.child.kill('SIGTERM')
    expect(await running.ended).toBe(0)
  },
)
