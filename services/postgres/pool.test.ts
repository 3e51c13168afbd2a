/** The pool and its connections against a real Postgres. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { DatabaseError } from '../../wire/errors.ts'
import { freePort, startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startSilentProxy } from '../testing/silent-proxy.ts'
import { connectionAddress } from './address.ts'
import type { Connection } from './connection.ts'
import { AcquisitionTimeout, ConnectionFailure } from './errors.ts'
import { Pool, type PoolSettings } from './pool.ts'
import { transact } from './transact.ts'

const never = new AbortController().signal

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
})
afterAll(() => postgres?.stop())

let time = 0
const pools: Pool[] = []
function open(settings: Partial<PoolSettings> = {}): Pool {
  const address = connectionAddress(postgres.uri('postgres'))
  const pool = new Pool(
    { address, size: 2, acquisitionTimeoutMs: 10_000, maximumLifetimeMs: 60_000, maximumIdleMs: 60_000, ...settings },
    () => time,
  )
  pools.push(pool)
  return pool
}
const connections: Connection[] = []
/** A connection that is acquired and kept until the end. */
async function take(settings: Partial<PoolSettings> = { size: 1 }): Promise<Connection> {
  const connection = await open(settings).acquire()
  connections.push(connection)
  return connection
}
afterAll(() => {
  for (const connection of connections) connection.close()
  for (const pool of pools) pool.close()
})

const pid = async (connection: Connection) =>
  String((await connection.run([{ text: 'SELECT pg_backend_pid()', values: [] }], true))[0]?.[0]?.[0])

describe('the pool', () => {
  test('gives a released connection to the next waiting request, and never exceeds its size', async () => {
    const pool = open()
    const [first, second] = await Promise.all([pool.acquire(), pool.acquire()])
    const waiting = pool.acquire()
    expect(pool.figures).toMatchObject({ open: 2, idle: 0, waiting: 1 })
    pool.release(first)
    expect(await waiting).toBe(first)
    pool.release(first)
    pool.release(second)
    expect(pool.figures).toMatchObject({ open: 2, idle: 2, waiting: 0 })
    expect(await pool.acquire()).toBe(second)
  })

  test('limits how long a request waits', async () => {
    const pool = open({ size: 1, acquisitionTimeoutMs: 300 })
    const connection = await pool.acquire()
    await expect(pool.acquire()).rejects.toBeInstanceOf(AcquisitionTimeout)
    expect(pool.figures).toMatchObject({ waiting: 0, timeouts: 1 })
    pool.release(connection)
    expect(await pool.acquire()).toBe(connection)
  })

  test('refuses waiting and new requests at once when it is closed', async () => {
    const pool = open({ size: 1, acquisitionTimeoutMs: 60_000 })
    connections.push(await pool.acquire())
    const waiting = pool.acquire()
    pool.close()
    await expect(waiting).rejects.toBeInstanceOf(AcquisitionTimeout)
    await expect(pool.acquire()).rejects.toBeInstanceOf(AcquisitionTimeout)
  })

  test('replaces an old connection, and a connection that was left in a transaction', async () => {
    const pool = open({ size: 1, maximumLifetimeMs: 1_000 })
    const first = await pool.acquire()
    const was = await pid(first)
    time += 1_000
    pool.release(first)
    const second = await pool.acquire()
    const is = await pid(second)
    expect(is).not.toBe(was)
    await second.run([{ text: 'BEGIN', values: [] }], true)
    pool.release(second)
    expect(await pid(await pool.acquire())).not.toBe(is)
  })

  test('keeps its minimum open while unused, and closes idle or old connections beyond it', async () => {
    const pool = open({ size: 3, maximumIdleMs: 1_000, maximumLifetimeMs: 5_000, checkMs: 20 })
    expect(pool.figures.open).toBe(0)
    pool.keep(2)
    await expect.poll(() => pool.figures).toMatchObject({ open: 2, idle: 2 })
    const all = await Promise.all([pool.acquire(), pool.acquire(), pool.acquire()])
    const before = await Promise.all(all.map(pid))
    for (const connection of all) pool.release(connection)
    time += 1_000
    await expect.poll(() => pool.figures).toMatchObject({ open: 2, idle: 2 })
    time += 5_000
    // The pool replaces connections that are too old.
    await expect
      .poll(async () => {
        const now = await Promise.all([pool.acquire(), pool.acquire()])
        const pids = await Promise.all(now.map(pid))
        for (const connection of now) pool.release(connection)
        return pids.filter(one => before.includes(one))
      })
      .toEqual([])
    pool.keep(0)
    time += 1_000
    await expect.poll(() => pool.figures.open).toBe(0)
  })

  test('opens its minimum once it can reach Postgres, and fails no request because of that', async () => {
    const address = connectionAddress(`postgresql://postgres@127.0.0.1:${await freePort()}/postgres`)
    const pool = open({ address, checkMs: 20 })
    pool.keep(2)
    await expect(pool.acquire()).rejects.toBeInstanceOf(ConnectionFailure)
    expect(pool.figures).toMatchObject({ open: 0, waiting: 0 })
  })

  test('detects a connection that Postgres has closed', async () => {
    const pool = open({ size: 1 })
    const first = await pool.acquire()
    const was = await pid(first)
    pool.release(first)
    await postgres.run(`SELECT pg_terminate_backend(${was})`)
    await expect.poll(() => pool.figures.open).toBe(0)
    expect(await pid(await pool.acquire())).not.toBe(was)
  })

  test('reports a connection failure, not a busy pool, if the server does not respond', async () => {
    const silent = createServer(() => {})
    await once(silent.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo
    const address = connectionAddress(`postgresql://postgres@127.0.0.1:${port}/postgres`)
    const pool = open({ address, size: 1, acquisitionTimeoutMs: 200 })
    await expect(pool.acquire()).rejects.toBeInstanceOf(ConnectionFailure)
    expect(pool.figures).toMatchObject({ open: 0, waiting: 0, timeouts: 1 })
  })

  test('reports to waiting requests why there is no connection', async () => {
    const address = connectionAddress('postgresql://nobody@127.0.0.1:1/none')
    await expect(open({ address }).acquire()).rejects.toBeInstanceOf(ConnectionFailure)
    const unknown = connectionAddress(postgres.uri('postgres', 'none'))
    await expect(open({ address: unknown }).acquire()).rejects.toMatchObject({ sqlState: '3D000' })
  })
})

test('closes connections whose server is silent, and opens others', async () => {
  const proxy = await startSilentProxy(postgres.port)
  const address = connectionAddress(`postgresql://postgres@127.0.0.1:${proxy.port}/postgres`)
  const pool = open({ address, size: 2, silenceMs: 50 })
  const select = (signal: AbortSignal) =>
    transact(pool, signal, connection => connection.run([{ text: 'SELECT 1', values: [] }], true))
  await Promise.all([select(never), select(never)])
  proxy.silence()
  await expect(select(AbortSignal.timeout(50))).rejects.toBeInstanceOf(ConnectionFailure)
  expect(pool.figures).toMatchObject({ open: 0, idle: 0 })
  await Promise.all([select(never), select(never)])
  await proxy.stop()
})

describe('a connection', () => {
  test('runs statements as one transaction, which an error rolls back', async () => {
    const pool = open({ size: 1 })
    const connection = await pool.acquire()
    await connection.run([{ text: 'CREATE TABLE IF NOT EXISTS kept (id int)', values: [] }], true)
    const insert = { text: 'INSERT INTO kept VALUES ($1)', values: ['1'] }
    const failing = connection.run([insert, { text: 'SELECT 1 / 0', values: [] }, insert], true)
    await expect(failing).rejects.toMatchObject({ sqlState: '22012' })
    await expect(failing).rejects.toBeInstanceOf(DatabaseError)
    expect(connection.isUsable).toBe(true)
    const count = { text: 'SELECT count(*) FROM kept', values: [] }
    expect(String((await connection.run([count], true))[0]?.[0]?.[0])).toBe('0')
    await connection.run([insert], true)
    expect(String((await connection.run([count], true))[0]?.[0]?.[0])).toBe('1')
  })

  test('settings of a transaction end with it', async () => {
    const connection = await take()
    const role = { text: `SELECT current_setting('search_path')`, values: [] }
    const set = { text: `SELECT set_config('search_path', 'elsewhere', true)`, values: [] }
    const [, inside] = await connection.run([set, role], true)
    expect(String(inside?.[0]?.[0])).toBe('elsewhere')
    expect(String((await connection.run([role], true))[0]?.[0]?.[0])).not.toBe('elsewhere')
  })

  test('limits the number of its prepared statements', async () => {
    const connection = await take()
    const prepared = async () => {
      const [rows] = await connection.run([{ text: 'SELECT count(*) FROM pg_prepared_statements', values: [] }], true)
      return Number(String(rows?.[0]?.[0]))
    }
    for (let number = 0; number < 350; number++) await connection.run([{ text: `SELECT ${number}`, values: [] }], true)
    const statementNames = await prepared()
    expect(statementNames).toBeGreaterThan(100)
    expect(statementNames).toBeLessThanOrEqual(301)
    for (let number = 0; number < 5; number++) await connection.run([{ text: 'SELECT 1, 2', values: [] }], false)
    expect(await prepared()).toBeLessThanOrEqual(statementNames)
  })

  test('returns cells as bytes: text of any kind, and binary on request', async () => {
    const connection = await take()
    const text = `SELECT 'ä', NULL, ''::text, '\\xff00'::bytea, '{"a":1}'::json`
    const [rows] = await connection.run([{ text, values: [], formats: [0, 0, 0, 1, 1] }], true)
    expect(rows?.[0]?.map(cell => cell?.toString('hex'))).toEqual(['c3a4', undefined, '', 'ff00', '7b2261223a317d'])
  })

  test('remains usable after its query is cancelled', async () => {
    const connection = await take()
    const sleeping = connection.run([{ text: 'SELECT pg_sleep(60)', values: [] }], true)
    const cancelled = expect(sleeping).rejects.toMatchObject({ sqlState: '57014' })
    // The query may not have begun yet. An early cancel request has no effect.
    const again = setInterval(() => connection.cancel(), 50)
    await cancelled
    clearInterval(again)
    await expect
      .poll(() => connection.run([{ text: 'SELECT 1', values: [] }], true).then(() => 'continues', String))
      .toBe('continues')
  })
})
