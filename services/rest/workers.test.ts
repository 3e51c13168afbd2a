/** Several processes of one service, as `espalier rest` starts them: one is killed and comes back, all read again, all end. */
import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { freePort, startPostgres, type TestPostgres } from './testing/postgres.ts'
import { type Answer, ask, configurationFile, until } from './testing/service.ts'
import { poolShares } from './workers.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE authenticator LOGIN NOINHERIT; GRANT anon TO authenticator;
  CREATE SCHEMA api;
  CREATE TABLE api.numbers AS SELECT generate_series(1, 50) AS id;
  GRANT USAGE ON SCHEMA api TO anon;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;`

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
})
afterAll(() => postgres?.stop())

type Started = {
  child: ChildProcess
  log: string[]
  adminPort: number
  file: string
  keys: Record<string, string | number>
}
let started: Started | undefined
afterEach(async () => {
  const { child } = started ?? {}
  started = undefined
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
})

async function start(own: Record<string, string | number>): Promise<Started> {
  const adminPort = await freePort()
  const keys = {
    'db-uri': postgres.uri('authenticator'),
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-pool': 5,
    'server-workers': 2,
    'server-host': '127.0.0.1',
    'admin-server-port': adminPort,
    'log-level': 'info',
    ...own,
  }
  const file = join(postgres.directory, 'rest.conf')
  writeFileSync(file, configurationFile(keys))
  const command = fileURLToPath(new URL('../../bin/espalier.mjs', import.meta.url))
  const child = spawn(process.execPath, [command, 'rest', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  const log: string[] = []
  child.stderr
    .setEncoding('utf8')
    .on('data', (text: string) => log.push(...text.split('\n').filter(line => line !== '')))
  started = { child, log, adminPort, file, keys }
  await until(() => isReady(adminPort))
  return started
}

const isReady = (port: number): Promise<boolean> =>
  ask(port, '/ready', {}, new Agent()).then(
    ({ status }) => status === 200,
    () => false,
  )
/** The processes that have read the schema, oldest first; each says so. */
const workersOf = ({ log }: Started): number[] => [
  ...new Set(
    log.filter(line => line.includes('the schema cache has been read')).map(line => Number(JSON.parse(line).pid)),
  ),
]
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
const rowsOf = ({ text }: Answer): number => JSON.parse(text).length

test('two workers on one port: all is answered, one that is killed comes back, SIGHUP is for both, SIGTERM ends both', async () => {
  const port = await freePort()
  const running = await start({ 'server-port': port })
  // A connection for each request, so that both workers are asked.
  const read = () => ask(port, '/numbers', {}, new Agent())
  const reads = (count: number) => Promise.all(Array.from({ length: count }, read))
  expect((await reads(40)).map(rowsOf)).toEqual(Array.from({ length: 40 }, () => 50))
  const [first = 0, second = 0] = workersOf(running)
  expect(workersOf(running)).toHaveLength(2)
  const metrics = (await ask(running.adminPort, '/metrics')).text
  expect(metrics).toContain('rst_requests_total{method="GET",status="200"} 40')
  expect(metrics).toContain('rst_db_pool_max 5')

  process.kill(first, 'SIGKILL')
  await until(async () => !(await isReady(running.adminPort)))
  expect((await reads(10)).map(rowsOf)).toEqual(Array.from({ length: 10 }, () => 50))
  await until(() => isReady(running.adminPort))
  const third = workersOf(running).at(-1) ?? 0
  expect(workersOf(running)).toEqual([first, second, third])
  expect((await reads(20)).map(rowsOf)).toEqual(Array.from({ length: 20 }, () => 50))

  writeFileSync(running.file, configurationFile({ ...running.keys, 'db-max-rows': 2 }))
  running.child.kill('SIGHUP')
  await until(async () => (await reads(10)).every(answer => rowsOf(answer) === 2))
  await until(async () => (await ask(running.adminPort, '/config')).text.includes('db-max-rows = 2'))

  const ended = new Promise(resolve => running.child.once('exit', resolve))
  running.child.kill('SIGTERM')
  expect(await ended).toBe(0)
  expect([second, third].filter(isRunning)).toEqual([])
})

test('two workers on one socket, which an earlier run has left behind', async () => {
  const socketPath = join(postgres.directory, 'rest.sock')
  writeFileSync(socketPath, '')
  const running = await start({ 'server-unix-socket': socketPath })
  const read = () => ask(0, '/numbers', { socketPath }, new Agent())
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

describe('the shares of a pool', () => {
  test('add up to all of it, and differ by one at most', () => {
    for (const [size, workers] of [
      [5, 2],
      [10, 4],
      [3, 3],
      [100, 7],
    ] as const) {
      const shares = poolShares(size, workers)
      expect(shares.reduce((sum, share) => sum + share)).toBe(size)
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1)
    }
  })
})
