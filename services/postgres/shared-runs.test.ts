/**
 * Short runs of several requests share one connection, against a real Postgres. Each run has its own result and error,
 * and no run waits long behind another run.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { connectionAddress } from './address.ts'
import { Connection } from './connection.ts'
import { ConnectionFailure, Evicted } from './errors.ts'
import { Pool } from './pool.ts'
import type { Step, Taken } from './run.ts'

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
})
afterAll(() => postgres?.stop())

const never = new AbortController().signal
const step = (text: string, ...values: string[]): Step => ({ text, values })
const echo = (value: string) => step('SELECT $1::text', value)
const sleep = (seconds: number) => step(`SELECT 'slept' FROM pg_sleep(${seconds})`)
const cellOf = ({ rows }: Taken) => String(rows.at(-1)?.[0]?.[0])

/** This is long enough for a busy machine. */
const longMs = 20_000

async function open(slowMs = longMs): Promise<{ connection: Connection; freed: () => number; ended: () => boolean }> {
  let freed = 0
  let isEnded = false
  const connection = await Connection.open(
    connectionAddress(postgres.uri('postgres')),
    () => 0,
    () => {
      isEnded = true
    },
  )
  onTestFinished(() => connection.close())
  connection.share(() => freed++, slowMs)
  return { connection, freed: () => freed, ended: () => isEnded }
}
const sleeping = `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()`
const running = async () => (await postgres.run(sleeping)).rowCount

describe('a shared connection', () => {
  test('gives each run its own rows and error, and is free once all runs have ended', async () => {
    const { connection, freed } = await open()
    const all = ['1', '2', '0', '4', 'no number', '6'].map(value =>
      connection.runShared([echo('before'), step('SELECT 12 / $1::int', value)], true, 0.01, never),
    )
    expect(freed()).toBe(0)
    const outcomes = await Promise.allSettled(all)
    expect(outcomes.map(one => (one.status === 'fulfilled' ? cellOf(one.value) : one.reason.sqlState))).toEqual([
      '12',
      '6',
      '22012',
      '3',
      '22P02',
      '2',
    ])
    expect(freed()).toBe(1)
    expect(connection.isUsable).toBe(true)
  })

  test('accepts a few runs while they are short', async () => {
    const { connection } = await open()
    const taken: Promise<Taken>[] = []
    const fill = (expectedMs: number) => {
      let count = 0
      for (; connection.acceptsShared(expectedMs, false); count++)
        taken.push(connection.runShared([echo('x')], true, expectedMs, never))
      return count
    }
    expect(fill(0.2)).toBe(2)
    expect(fill(0.01)).toBe(6)
    await Promise.all(taken)
    expect(connection.acceptsShared(0, false)).toBe(false)
  })

  test('evicts all other runs if the first run takes long, until that run has ended', async () => {
    const { connection, freed } = await open(20)
    const first = connection.runShared([sleep(0.4)], true, 0.01, never)
    const began = performance.now()
    const behind = [1, 2].map(() => connection.runShared([echo('x')], true, 0.01, never))
    for (const one of behind) await expect(one).rejects.toBeInstanceOf(Evicted)
    expect(performance.now() - began).toBeLessThan(350)
    expect(connection.acceptsShared(0.01, false)).toBe(false)
    expect(freed()).toBe(0)
    expect(cellOf(await first)).toBe('slept')
    await expect.poll(freed).toBe(1)
    expect(connection.isUsable).toBe(true)
    expect(String((await connection.run([echo('own')], true))[0]?.[0]?.[0])).toBe('own')
  })

  test('continues for the other runs if one run is abandoned', async () => {
    const { connection } = await open()
    const leaving = new AbortController()
    const first = connection.runShared([echo('first')], true, 0.01, never)
    const second = connection.runShared([echo('second')], true, 0.01, leaving.signal)
    const third = connection.runShared([echo('third')], true, 0.01, never)
    leaving.abort(new Error('gone'))
    await expect(second).rejects.toThrow('gone')
    expect([cellOf(await first), cellOf(await third)]).toEqual(['first', 'third'])
    expect(connection.isUsable).toBe(true)
  })

  test.each([0, 2])('cancels abandoned runs, with %i runs behind them', async count => {
    const { connection, ended } = await open(20)
    const leaving = new AbortController()
    const first = connection.runShared([sleep(60)], true, 0.01, leaving.signal)
    const behind = Array.from({ length: count }, () => connection.runShared([echo('x')], true, 0.01, never))
    const outcomes = Promise.allSettled([first, ...behind])
    await expect.poll(running).toBe(1)
    leaving.abort(new Error('gone'))
    const reasons = (await outcomes).map(one => one.status === 'rejected' && String(one.reason))
    expect(reasons).toEqual(['Error: gone', ...behind.map(() => String(new Evicted()))])
    await expect.poll(running).toBe(0)
    await expect.poll(ended).toBe(true)
  })

  test('evicts runs behind too many rows or a closed connection', async () => {
    for (const [text, first] of [
      [`SELECT repeat('x', 300000)`, Evicted],
      ['SELECT pg_terminate_backend(pg_backend_pid())', Error],
    ] as const) {
      const { connection, ended } = await open()
      const runs = [step(text), echo('x')].map(one => connection.runShared([one], true, 0.01, never))
      const [own, other] = await Promise.allSettled(runs)
      expect(own).toMatchObject({ status: 'rejected', reason: expect.any(first) })
      expect(other).toMatchObject({ status: 'rejected', reason: expect.any(Evicted) })
      expect(ended()).toBe(true)
    }
  })

  test('evicts runs whose statements were deallocated', async () => {
    const { connection, freed } = await open()
    expect(cellOf(await connection.runShared([echo('kept')], true, 0.01, never))).toBe('kept')
    connection.share(() => {}, longMs)
    const runs = [step('DEALLOCATE ALL'), echo('x')].map(one => connection.runShared([one], true, 0.01, never))
    const [, other] = await Promise.allSettled(runs)
    expect(other).toMatchObject({ status: 'rejected', reason: expect.any(Evicted) })
    expect(freed()).toBe(1)
    expect(connection.isUsable).toBe(false)
  })

  test('evicts runs behind a failed transaction', async () => {
    const { connection, freed } = await open()
    const transaction = (text: string) => [step('BEGIN'), step(text), step('ROLLBACK')]
    const runs = ['SELECT 1 / (SELECT 0)', `SELECT 'x'`].map(text =>
      connection.runShared(transaction(text), true, 0.01, never),
    )
    expect(connection.acceptsShared(0.01, false)).toBe(true)
    const [own, other] = await Promise.allSettled(runs)
    expect(own).toMatchObject({ status: 'rejected', reason: { sqlState: '22012' } })
    expect(other).toMatchObject({ status: 'rejected', reason: expect.any(Evicted) })
    expect(connection.acceptsShared(0.01, false)).toBe(false)
    await expect.poll(freed).toBe(1)
    expect(connection.transaction).toBe('failed')
  })

  test('is released once if it is closed while in use', async () => {
    const { connection, freed, ended } = await open(20)
    const leaving = new AbortController()
    const sleeper = connection.runShared([sleep(60)], true, 0.01, leaving.signal)
    await expect.poll(running).toBe(1)
    leaving.abort(new Error('gone'))
    await expect(sleeper).rejects.toThrow('gone')
    await expect.poll(ended, { timeout: 5_000 }).toBe(true)
    expect(freed()).toBe(1)
  })

  test('sends no message of a run that cannot be encoded, and all messages of the other runs', async () => {
    const { connection, freed } = await open()
    const tooMany: Step = { text: 'SELECT 1', values: new Array<string>(65_536).fill('') }
    const runs = [echo('first'), tooMany, echo('last')].map(one => connection.runShared([one], true, 0.01, never))
    const [first, second, third] = await Promise.allSettled(runs)
    expect([first, third].map(one => one?.status === 'fulfilled' && cellOf(one.value))).toEqual(['first', 'last'])
    expect(second).toMatchObject({ status: 'rejected', reason: expect.any(RangeError) })
    expect(freed()).toBe(1)
  })

  test('serves no other request before it is free', async () => {
    const { connection } = await open()
    const shared = connection.runShared([echo('x')], true, 0.01, never)
    await expect(connection.run([echo('y')], true)).rejects.toThrow('one request at a time')
    expect(cellOf(await shared)).toBe('x')
  })
})

describe('a pool', () => {
  const openPool = (size: number, slowMs = longMs) => {
    const address = connectionAddress(postgres.uri('postgres'))
    const pool = new Pool(
      { address, size, acquisitionTimeoutMs: 5_000, maximumLifetimeMs: 60_000, maximumIdleMs: 60_000, slowMs },
      () => 0,
    )
    onTestFinished(() => pool.close())
    return pool
  }

  test('shares one connection among concurrent runs, and reuses it afterwards', async () => {
    const pool = openPool(4)
    const pid = step('SELECT pg_backend_pid()')
    await pool.runShared([pid], true, 0.01, never)
    const pids = await Promise.all(Array.from({ length: 6 }, () => pool.runShared([pid], true, 0.01, never)))
    // The first run gets the idle connection. The other runs arrive while the first run waits for the connection.
    expect(new Set(pids.map(cellOf)).size).toBeLessThan(6)
    expect(pool.figures).toMatchObject({ waiting: 0 })
    expect(pool.figures.idle).toBe(pool.figures.open)
  })

  test('a request for exclusive use does not wait indefinitely for runs that share', async () => {
    const pool = openPool(1)
    let isOver = false
    let count = 0
    const busy = Array.from({ length: 4 }, async () => {
      for (; !isOver; count++) await pool.runShared([echo('x')], true, 0.01, never)
    })
    await expect.poll(() => count).toBeGreaterThan(100)
    const own = await pool.acquire()
    await expect(own.run([echo('y')], true)).resolves.toHaveLength(1)
    pool.release(own)
    isOver = true
    await Promise.all(busy)
    expect(pool.figures).toMatchObject({ open: 1, idle: 1, waiting: 0 })
  })

  test('releases the connection of a run that was abandoned before it began', async () => {
    const pool = openPool(1)
    await expect(pool.runShared([echo('x')], true, 0.01, AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
    expect(pool.figures).toMatchObject({ open: 1, idle: 1 })
    const [taken] = await Promise.all([pool.runShared([echo('x')], true, 0.01, never)])
    expect(cellOf(taken)).toBe('x')
  })

  test('stops sharing for a while after a run was evicted', async () => {
    const pool = openPool(2, 20)
    const slow = pool.runShared([sleep(0.2)], true, 0.01, never)
    await expect.poll(() => pool.figures.open).toBe(1)
    await expect(pool.runShared([echo('x')], true, 0.01, never)).rejects.toBeInstanceOf(Evicted)
    expect(cellOf(await slow)).toBe('slept')
    await expect(pool.runShared([echo('x')], true, 0.01, never)).rejects.toBeInstanceOf(Evicted)
    await expect.poll(() => pool.figures).toMatchObject({ open: 1, idle: 1 })
    await expect
      .poll(() => pool.runShared([echo('x')], true, 0.01, never).then(cellOf, String), { timeout: 5_000 })
      .toBe('x')
  })

  test('reports why the pool cannot connect', async () => {
    const address = connectionAddress('postgresql://nobody@127.0.0.1:1/none')
    const pool = new Pool(
      { address, size: 1, acquisitionTimeoutMs: 300, maximumLifetimeMs: 60_000, maximumIdleMs: 60_000 },
      () => 0,
    )
    onTestFinished(() => pool.close())
    await expect(pool.runShared([echo('x')], true, 0.01, never)).rejects.toBeInstanceOf(ConnectionFailure)
  })
})
