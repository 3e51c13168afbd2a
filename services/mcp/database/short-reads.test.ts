/**
 * Short reads that share a connection, on a real Postgres. Each read has its own transaction and its own error, and no
 * caller waits behind another caller.
 */
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { connectionAddress } from '../../postgres/address.ts'
import { Pool } from '../../postgres/pool.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { anyone } from '../core/caller.ts'
import { callContext, databaseOf } from '../testing/calls.ts'
import type { AuditEntry } from './access.ts'
import { createDatabaseAccess } from './index.ts'
import { createShares } from './shares.ts'
import { createShortReads } from './short-reads.ts'

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(
    `CREATE TABLE divisor (n int); CREATE TABLE delay (seconds float); GRANT SELECT ON divisor, delay TO PUBLIC;
     CREATE FUNCTION locked() RETURNS void STABLE LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock(7); END$$`,
  )
})
afterAll(() => postgres?.stop())
beforeEach(
  async () =>
    void (await postgres.run('TRUNCATE divisor, delay; INSERT INTO divisor VALUES (1); INSERT INTO delay VALUES (0)')),
)

const caller = (name: string) => ({ ...anyone, kind: 'user' as const, principal: `user:${name}` })

/** Opens database access with its own pool. */
function open(settings: object = {}) {
  const noted: AuditEntry[] = []
  const access = createDatabaseAccess({ maximumBytes: 1_000_000, audit: entry => noted.push(entry), warn: () => {} })
  onTestFinished(() => access.close())
  const database = databaseOf(postgres, { poolSize: 4, ...settings })
  const run = async (text: string, name = 'alice', signal = new AbortController().signal) => {
    const ran = await access.run(
      database,
      { text, mode: 'read', maximumRows: 10 },
      callContext({ caller: caller(name), signal }),
      'query_database',
    )
    return ran.texts.decoded()
  }
  /** Repeats a read until it counts as a short read, also on a busy machine. */
  const measure = async (text: string) => {
    for (let count = 0; count < 200; count++) await run(text)
  }
  return { noted, run, measure }
}

const pidOf = 'SELECT pg_backend_pid()'
const several = <T>(make: () => Promise<T>) => Array.from({ length: 6 }, make)

/** Opens a pool with one connection for each of two callers, in which no statement counts as slow. */
async function openShared(size = 4) {
  const address = connectionAddress(postgres.uri('postgres'))
  const lasting = { acquisitionTimeoutMs: 20_000, maximumLifetimeMs: 600_000, maximumIdleMs: 600_000 }
  const pool = new Pool({ address, size, ...lasting }, () => 0)
  onTestFinished(() => pool.close())
  for (const connection of await Promise.all([pool.acquire(), pool.acquire()])) pool.release(connection)
  const reads = createShortReads(pool, createShares(size, 20_000), 60_000)
  const never = new AbortController().signal
  const run = (owner: string, text: string, signal = never) =>
    reads
      .run({
        owner,
        steps: ['BEGIN', text, 'ROLLBACK'].map(one => ({ text: one, values: [] })),
        expectedMs: 0.01,
        signal,
        onBegin: () => {},
      })
      .then(({ rows }) => String(rows[1]?.[0]?.[0]))
  return { pool, run }
}

test('reads of one caller share a connection, and reads of two callers do not', async () => {
  const { pool, run } = await openShared()
  const [own = [], other = []] = await Promise.all(
    ['alice', 'bob'].map(name => Promise.all(several(() => run(name, pidOf)))),
  )
  expect([new Set(own).size, new Set(other).size, new Set([...own, ...other]).size]).toEqual([1, 1, 2])
  expect(pool.figures).toMatchObject({ open: 2, idle: 2 })
})

test('after a failed read, the queued reads are evicted, and the next caller gets a clean connection', async () => {
  const { pool, run } = await openShared(2)
  const outcomes = await Promise.allSettled([
    run('alice', 'SELECT locked(), 1 / (SELECT 0)'),
    ...several(() => run('alice', pidOf)),
  ])
  expect(outcomes.map(one => one.status === 'rejected' && (one.reason.sqlState ?? one.reason.name))).toEqual([
    '22012',
    ...several(async () => {}).map(() => 'Evicted'),
  ])
  await expect.poll(() => pool.figures.idle).toBe(2)
  expect(await run('bob', `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`)).toBe('0')
})

test("a function that prepares statements with a connection's own names cannot end READ ONLY for later reads", async () => {
  await postgres.run(`
    CREATE TABLE written (note text);
    CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS $$BEGIN
      PERFORM replace_prepared('ROLLBACK%', 'SELECT 2');
      INSERT INTO written VALUES (current_setting('transaction_read_only')); RETURN 1; END$$;
    CREATE FUNCTION replace_prepared(statements text, replacement text) RETURNS int LANGUAGE plpgsql AS $$DECLARE found record; replaced int := 0; BEGIN
      FOR found IN SELECT name FROM pg_prepared_statements WHERE statement LIKE statements LOOP
        EXECUTE 'DEALLOCATE ' || found.name; EXECUTE format('PREPARE %s AS %s', found.name, replacement); replaced := replaced + 1;
      END LOOP; RETURN replaced; END$$;
    CREATE FUNCTION innocent() RETURNS int STABLE LANGUAGE plpgsql AS $$BEGIN
      RETURN replace_prepared('BEGIN%', 'SELECT writes()'); END$$`)
  const { run, measure } = open({ poolSize: 1 })
  await measure(pidOf)
  await run('SELECT innocent()')
  for (let count = 0; count < 5; count++) await Promise.all(several(() => run(pidOf).catch(() => {})))
  expect((await postgres.run('SELECT * FROM written')).rows).toEqual([])
  expect(await run(`SELECT name FROM pg_prepared_statements WHERE statement ~ '^(BEGIN|ROLLBACK|COMMIT)'`)).toEqual([])
})

test('if the first read aborts before its connection opens, the reads that wait for it still run', async () => {
  const { pool, run } = await openShared(2)
  const connections = await Promise.all([pool.acquire(), pool.acquire()])
  const leaving = new AbortController()
  // The first read takes the caller's only slot.
  const first = run('alice', pidOf)
  const running = Promise.allSettled([run('bob', pidOf, leaving.signal), ...several(() => run('bob', pidOf))])
  leaving.abort(new Error('gone'))
  for (const connection of connections) pool.release(connection)
  expect(await first).toMatch(/^\d+$/)
  const outcomes = await running
  expect(outcomes[0]).toMatchObject({ status: 'rejected', reason: { message: 'gone' } })
  expect(outcomes.slice(1).map(({ status }) => status)).toEqual(several(async () => {}).map(() => 'fulfilled'))
  expect(pool.figures).toMatchObject({ open: 2, idle: 2, waiting: 0 })
})

test('records each read', async () => {
  const { noted, run, measure } = open()
  await measure(pidOf)
  const before = noted.length
  await Promise.all(several(() => run(pidOf)))
  expect(noted.slice(before).map(({ outcome, principal, rows }) => [outcome, principal, rows])).toEqual(
    several(async () => {}).map(() => ['done', 'user:alice', 1]),
  )
})

test('each read runs READ ONLY with its limits, and leaves no session state', async () => {
  const { run, measure } = open({ poolSize: 1, statementTimeoutMs: 4_321 })
  const text = `SELECT current_setting('transaction_read_only'), current_setting('statement_timeout'), current_setting('work_mem'),
    set_config('work_mem', '1MB', false), locked(), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')`
  await measure(text)
  for (const rows of await Promise.all(several(() => run(text))))
    expect(rows).toEqual([['on', '4321ms', '4MB', '1MB', '', '1']])
  const sessionState = `SELECT current_setting('work_mem'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')`
  expect(await run(sessionState)).toEqual([['4MB', '0']])
})

test('a failing read affects no other read, and leaves no lock', async () => {
  const { run, measure } = open({ poolSize: 1 })
  const failing = 'SELECT locked(), 1 / (SELECT n FROM divisor)'
  await measure(pidOf)
  await measure(failing)
  await postgres.run('UPDATE divisor SET n = 0')
  const [failed, ...others] = await Promise.allSettled([run(failing), ...several(() => run(pidOf))])
  expect(failed).toMatchObject({ status: 'rejected', reason: { sqlState: '22012' } })
  expect(others.map(({ status }) => status)).toEqual(others.map(() => 'fulfilled'))
  expect(await run(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`)).toEqual([['0']])
})

test('a read that becomes slow delays no other read, and its caller can abort it', async () => {
  const { run, measure, noted } = open()
  const slow = `SELECT 'slow' FROM delay, pg_sleep(seconds)`
  await measure(pidOf)
  await measure(slow)
  await postgres.run('UPDATE delay SET seconds = 60')
  const leaving = new AbortController()
  const running = run(slow, 'alice', leaving.signal)
  const began = performance.now()
  await Promise.all(several(() => run(pidOf)))
  expect(performance.now() - began).toBeLessThan(5_000)
  leaving.abort(new Error('gone'))
  await expect(running).rejects.toThrow('gone')
  expect(noted.at(-1)).toMatchObject({ outcome: 'cancelled' })
  const active = `SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT ''slow''%' AND state = 'active'`
  await expect.poll(async () => (await postgres.run(active)).rowCount, { timeout: 5_000 }).toBe(0)
  // The caller's connections are all free again.
  await postgres.run('UPDATE delay SET seconds = 0.05')
  expect(await Promise.all(several(() => run(slow)))).toEqual(several(async () => {}).map(() => [['slow']]))
})

test('limits the time of a short read', async () => {
  const { run, measure } = open({ statementTimeoutMs: 300 })
  const slow = 'SELECT pg_sleep(seconds) FROM delay'
  await measure(slow)
  await postgres.run('UPDATE delay SET seconds = 60')
  await expect(run(slow)).rejects.toMatchObject({ sqlState: '57014' })
  await postgres.run('UPDATE delay SET seconds = 0')
  expect(await run(slow)).toEqual([['']])
})

test('releases all slots if the connection ends', async () => {
  const { run, measure } = open({ poolSize: 1, connectTimeoutMs: 2_000 })
  await measure(pidOf)
  const ending = 'SELECT pg_terminate_backend(pg_backend_pid()) FROM divisor WHERE n = 0'
  await measure(ending)
  await postgres.run('UPDATE divisor SET n = 0')
  await expect(run(ending)).rejects.toThrow()
  const outcomes = await Promise.allSettled(several(() => run(pidOf)))
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'fulfilled'))
})
