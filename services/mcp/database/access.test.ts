/**
 * Statements on a real Postgres: limits of time and size, and cancellation. No call leaves anything in the session for
 * the next call.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DatabaseError } from '../../../wire/errors.ts'
import { ConnectionFailure } from '../../postgres/errors.ts'
import { freePort, startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import type { CallContext } from '../core/call.ts'
import { anyone } from '../core/caller.ts'
import { callContext, databaseOf } from '../testing/calls.ts'
import type { AuditEntry, JudgedStatement } from './access.ts'
import { createDatabaseAccess, type Databases } from './index.ts'
import { statementTag } from './tag.ts'
import { unreachable } from './unreachable.ts'

let postgres: TestPostgres
let databases: Databases
const noted: AuditEntry[] = []
const warned: object[] = []
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run('CREATE TABLE t (n int); INSERT INTO t SELECT generate_series(1, 3)')
  databases = createDatabaseAccess({
    maximumBytes: 1_000_000,
    audit: entry => noted.push(entry),
    warn: (facts, message) => warned.push({ ...facts, message }),
  })
})
afterAll(async () => {
  databases?.close()
  await postgres?.stop()
})

const run = (text: string, changed: Partial<JudgedStatement> = {}, settings = {}, context = {}) =>
  databases
    .run(
      databaseOf(postgres, settings),
      { text, mode: 'read', maximumRows: 100, ...changed },
      callContext(context),
      'query_database',
    )
    .then(ran => ({ ...ran, rows: ran.texts.decoded() }))
const one = async (text: string) => (await run(text)).rows[0]?.[0]

test('slow statements of one caller do not delay another caller, also if the catalogue must be read first', async () => {
  const access = createDatabaseAccess({ maximumBytes: 10_000_000, audit: () => {}, warn: () => {} })
  const database = databaseOf(postgres, { name: 'shared', connectTimeoutMs: 30_000 })
  const leaving = new AbortController()
  const as = (name: string, signal = leaving.signal) =>
    callContext({ caller: { ...anyone, kind: 'user', principal: `user:${name}` }, signal })
  const select = (text: string, context: CallContext) =>
    access
      .run(database, { text, mode: 'read', maximumRows: 1 }, context, 'query_database')
      .then(({ texts }) => ({ rows: texts.decoded() }))
  try {
    const slow = Array.from({ length: 20 }, () => select('SELECT pg_sleep(60)', as('slow')).catch(() => 'ended'))
    const ofSlow = access.facts(database, as('slow'), [])
    for (const name of ['alice', 'bob']) {
      const context = as(name, new AbortController().signal)
      const quick = access.facts(database, context, []).then(() => select('SELECT 1', context))
      expect(await Promise.race([quick, ...slow])).toMatchObject({ rows: [['1']] })
    }
    await ofSlow
    leaving.abort(new Error('over'))
    expect(new Set(await Promise.all(slow))).toEqual(new Set(['ended']))
  } finally {
    access.close()
  }
})

test('logs why a connection failed, and reports only the kind of failure to callers', async () => {
  const failed = (settings: object) => run('SELECT 1', {}, settings).catch((error: unknown) => error)
  const help = 'Retrying does not help: the log of this tool server has the reason for its administrator.'
  warned.length = 0
  expect(unreachable('main', await failed({ database: 'nothere' }))).toEqual({
    message: `The database "main" cannot be reached: its server has no database of that name. ${help}`,
    retryable: false,
  })
  expect(warned).toEqual([
    {
      database: 'main',
      reason: 'database "nothere" does not exist',
      message: 'this database cannot be reached',
    },
  ])
  expect(unreachable('main', await failed({ host: 'nosuch.invalid' })).message).toMatch(
    /its host is not known|Try again/,
  )
  expect(unreachable('main', await failed({ port: await freePort() }))).toEqual({
    message: 'The database "main" cannot be reached. Try again in a moment.',
    retryable: true,
  })
})

test.each([
  [new ConnectionFailure('no', '28P01'), /refuses the login/],
  [
    new ConnectionFailure('no', undefined, Object.assign(new Error('no'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' })),
    /TLS/,
  ],
  [
    new ConnectionFailure('no', undefined, Object.assign(new Error('no'), { code: 'ENOENT', syscall: 'open' })),
    /a file/,
  ],
  [
    new ConnectionFailure('no', undefined, Object.assign(new Error('no'), { code: 'ENOENT', syscall: 'connect' })),
    /again in/,
  ],
  [new ConnectionFailure('no', '57P03'), /again in/],
  [new DatabaseError(new Map([['C', '53300']])), /again in/],
])('reports the kind of a failure, never its message: %j', (error, pattern) => {
  expect(unreachable('main', error).message).toMatch(pattern)
})

describe('rows', () => {
  test('are printed as in psql', async () => {
    const { columns, rows } = await run(
      `SELECT 1.50::numeric AS n, '{1,NULL}'::int[] AS a, interval '1 day 2 hours' AS i, NULL AS nothing, '' AS empty, '[1,3)'::int4range AS r, true AS b`,
    )
    expect(columns.map(({ name }) => name)).toEqual(['n', 'a', 'i', 'nothing', 'empty', 'r', 'b'])
    expect(columns[0]?.type).toBe(1700)
    expect(rows).toEqual([['1.50', '{1,NULL}', '1 day 02:00:00', null, '', '[1,3)', 't']])
  })

  test('end at the maximum, and Postgres produces no further rows', async () => {
    const { rows, isTruncated } = await run('SELECT 1 FROM pg_proc, pg_proc AS b, pg_proc AS c', {
      maximumRows: 3,
    })
    expect([rows, isTruncated]).toEqual([[['1'], ['1'], ['1']], false])
  })

  test('end at the size limit, also within a single large row', async () => {
    const many = await run(`SELECT n, repeat('x', 100000) FROM generate_series(1, 100) AS n`)
    expect(many.isTruncated).toBe(true)
    expect(many.rows.map(([n]) => n)).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])
    const single = await run(`SELECT repeat('x', 50000000)`)
    expect([single.isTruncated, single.rows, single.columns.length]).toEqual([true, [], 1])
    expect(await one('SELECT 1')).toBe('1')
  })
})

describe('a read', () => {
  test('by the server itself runs all its statements on one snapshot, with values', async () => {
    const results = await databases.read(
      databaseOf(postgres),
      [
        { text: 'SELECT $1::int + 1 AS a', values: [41] },
        { text: 'SELECT n FROM t WHERE n > $1 ORDER BY n', values: [1] },
        { text: `SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')` },
      ],
      callContext(),
      'get_schema_info',
    )
    expect(results.map(({ rows }) => rows)).toEqual([[['42']], [['2'], ['3']], [['repeatable read', 'on']]])
  })

  test('cannot write', async () => {
    await expect(run('DELETE FROM t')).rejects.toMatchObject({ sqlState: '25006' })
    expect(await one('SELECT count(*) FROM t')).toBe('3')
  })

  test('reports the position of an error', async () => {
    await expect(run('SELECT nothing FROM t')).rejects.toMatchObject({ sqlState: '42703', position: 8 })
  })

  test('leaves nothing behind: no setting, lock, table or prepared statement, whether it fails or not', async () => {
    const only = { poolSize: 1, name: 'only' }
    for (const end of ['', ', 1 / (SELECT 0)']) {
      const running = run(
        `SELECT set_config('work_mem', '1MB', false), set_config('search_path', 'pg_temp', false), pg_advisory_lock(7), pg_advisory_xact_lock(8)${end}`,
        {},
        only,
      )
      await (end === '' ? running : expect(running).rejects.toThrow(DatabaseError))
      const { rows } = await run(
        `SELECT current_setting('work_mem'), current_setting('search_path'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
         (SELECT count(*) FROM pg_prepared_statements WHERE statement NOT LIKE '%set_config%' AND statement !~ '^(BEGIN|ROLLBACK|SELECT pg_catalog.(pg_advisory|date_part))')`,
        {},
        only,
      )
      expect(rows).toEqual([['4MB', '"$user", public', '0', '0']])
    }
  })
})

describe('a write', () => {
  test('is committed, and the next call has a new session', async () => {
    const only = { poolSize: 1, name: 'writer' }
    const { affected, rows } = await run('INSERT INTO t VALUES (4), (5) RETURNING n', { mode: 'write' }, only)
    expect([affected, rows]).toEqual([2, [['4'], ['5']]])
    await run(`SELECT set_config('work_mem', '1MB', false), pg_advisory_lock(9)`, { mode: 'write' }, only)
    const { rows: after } = await run(
      `SELECT current_setting('work_mem'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM t)`,
      {},
      only,
    )
    expect(after).toEqual([['4MB', '0', '5']])
    await run('DELETE FROM t WHERE n > 3', { mode: 'write' }, only)
  })

  test('is not committed if its rows are too large', async () => {
    const large = run(`INSERT INTO t SELECT n FROM generate_series(10, 50) AS n RETURNING repeat('x', 100000)`, {
      mode: 'write',
    })
    await expect(large).rejects.toThrow('nothing was written')
    await expect.poll(() => one('SELECT count(*) FROM t')).toBe('3')
  })
})

describe('time', () => {
  test('is limited', async () => {
    await expect(run('SELECT pg_sleep(30)', {}, { statementTimeoutMs: 100, name: 'hasty' })).rejects.toMatchObject({
      sqlState: '57014',
    })
  })

  test('is limited also while Postgres does not check its own limit; the connection counts until the statement stops', async () => {
    const limits = { statementTimeoutMs: 300, poolSize: 1, connectTimeoutMs: 200, name: 'stuck' }
    for (const mode of ['read', 'write'] as const) {
      const from = performance.now()
      const pid = Number((await run('SELECT pg_backend_pid()', {}, limits)).rows[0]?.[0])
      const running = run(
        mode === 'read' ? 'SELECT pg_sleep(10)' : 'INSERT INTO t SELECT 99 FROM pg_sleep(0.1)',
        { mode },
        limits,
      )
      await sleep(30)
      process.kill(pid, 'SIGSTOP')
      try {
        await expect(running).rejects.toMatchObject({ sqlState: '57014' })
        expect(performance.now() - from).toBeLessThan(3_000)
        await expect(run('SELECT 1', {}, limits)).rejects.toThrow('in time')
      } finally {
        process.kill(pid, 'SIGCONT')
      }
      await expect
        .poll(() =>
          run('SELECT 1', {}, limits).then(
            ({ rows }) => rows,
            () => undefined,
          ),
        )
        .toEqual([['1']])
    }
    expect(await one('SELECT count(*) FROM t WHERE n = 99')).toBe('0')
  })

  test('ends when the client disconnects: Postgres cancels the statement', async () => {
    const aborter = new AbortController()
    const running = run('SELECT pg_sleep(30)', {}, {}, { signal: aborter.signal })
    await sleep(100)
    aborter.abort(new Error('gone'))
    await expect(running).rejects.toThrow('gone')
    await expect
      .poll(() => one(`SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'`))
      .toBe('0')
    expect(noted.findLast(({ outcome }) => outcome !== 'done')).toMatchObject({ outcome: 'cancelled' })
    await expect(run('SELECT 1', {}, {}, { signal: aborter.signal })).rejects.toThrow('gone')
  })
})

test('no value can escape from the tag of a statement', async () => {
  const caller = { ...callContext().caller, principal: `user:*/ ; DROP TABLE t; '/*é${'x'.repeat(500)}` }
  const { rows } = await run(
    `SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid() -- the end`,
    {},
    {},
    { caller },
  )
  const query = rows[0]?.[0] ?? ''
  expect(query).toMatch(
    /-- the end\n\/\*application='espalier-mcp',request='request-1',tool='query_database',user='[\w.~%-]+'\*\/$/,
  )
  expect(decodeURIComponent(/user='(.*)'/.exec(query)?.[1] ?? '')).toBe(caller.principal.slice(0, 128))
  expect(noted.at(-1)).toMatchObject({
    tool: 'query_database',
    principal: caller.principal,
    author: 'caller',
    mode: 'read',
    rows: 1,
    outcome: 'done',
  })
})

test('reads the catalogue once for concurrent callers, and again for a new function', async () => {
  const settings = databaseOf(postgres, { name: 'facts' })
  const readings = () => noted.filter(({ tool, database }) => tool === 'catalogue' && database === 'facts').length
  const leaving = new AbortController()
  const first = databases.facts(settings, callContext({ signal: leaving.signal }), [])
  const others = [1, 2, 3].map(() => databases.facts(settings, callContext(), ['lower']))
  leaving.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  const facts = await Promise.all(others)
  expect(facts[0]?.volatile.get('nextval')).toMatchObject([{ schema: 'pg_catalog', fewest: 1, most: 1 }])
  const before = readings()
  expect(before).toBe(2)
  await Promise.all([1, 2, 3].map(() => databases.facts(settings, callContext(), ['lower', 'nothing_of_this_name'])))
  expect(readings()).toBe(before)
  databases.forget(settings)
  await Promise.all([1, 2, 3].map(() => databases.facts(settings, callContext(), [])))
  expect(readings()).toBe(before + 1)
})

test('tag values decode to the original values', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (requestId, principal) => {
      const context = callContext({ requestId, traceparent: requestId, caller: { ...callContext().caller, principal } })
      expect(statementTag(context, principal)).toMatch(/^\n\/\*([a-z]+='[\w.~%-]*',?)+\*\/$/)
    }),
  )
})

test('reports a missing database as a connection failure, and wrong settings as wrong settings', async () => {
  await expect(run('SELECT 1', {}, { name: 'away', port: await freePort() })).rejects.toThrow(ConnectionFailure)
  await expect(run('SELECT 1', {}, { name: 'odd', sslmode: 'verify-ca' })).rejects.toThrow('sslrootcert')
})

test('connections belong to the database, not to the caller, and are replaced when its settings change', async () => {
  const pids = new Set<string | null | undefined>()
  for (let index = 0; index < 10; index++) {
    const caller = { ...callContext().caller, principal: `token:${index}` }
    pids.add((await run('SELECT pg_backend_pid()', {}, { name: 'shared' }, { caller })).rows[0]?.[0])
  }
  expect(pids.size).toBe(1)
  await postgres.run('CREATE ROLE other LOGIN')
  expect((await run('SELECT current_user', {}, { name: 'shared', user: 'other' })).rows).toEqual([['other']])
})
