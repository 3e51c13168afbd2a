/**
 * check_health on a real Postgres with every problem that a test can create in seconds. Tests the thresholds of the
 * other checks with made-up rows.
 */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { replicationCheck } from '../catalogue/health/activity.ts'
import { duration, size } from '../catalogue/health/check.ts'
import { wraparoundCheck } from '../catalogue/health/numbers.ts'
import { answerOf, type CatalogueTest, startCatalogueTest } from '../catalogue/testing/server.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { Rows } from '../database/access.ts'
import { callTool } from '../testing/calls.ts'
import { checkHealth } from './check-health.ts'

let server: CatalogueTest
beforeAll(async () => {
  server = await startCatalogueTest({
    autovacuum: 'off',
    max_connections: '20',
    wal_level: 'logical',
    max_prepared_transactions: '2',
  })
})
afterAll(() => server?.stop())

async function call(checks?: string[], changed: Partial<DatabaseSettings> = {}) {
  const { access, limits } = server
  const tool = checkHealth({ entries: server.entries(changed), access, limits })
  return answerOf(await callTool(tool, checks === undefined ? {} : { checks }))
}
const textOf = async (...args: Parameters<typeof call>) => {
  const { text, isError } = await call(...args)
  expect(isError, text).toBe(false)
  return text
}
const run = (sql: string) => server.postgres.run(sql)

describe('check_health', () => {
  test('runs all checks, also for a role without privileges, and lists the worst first', async () => {
    await run('CREATE ROLE nobody LOGIN')
    for (const user of ['postgres', 'nobody']) {
      const text = await textOf(undefined, { user, name: user })
      const reported = [...text.matchAll(/^(?:OK|WARNING|CRITICAL) (\w+):/gm)].map(([, name]) => name)
      expect(reported.toSorted()).toEqual([
        'bloat',
        'cache',
        'connections',
        'indexes',
        'replication',
        'sequences',
        'transactions',
        'vacuum',
        'wraparound',
      ])
      expect(text).not.toContain('UNKNOWN')
      // The verdict is CRITICAL, because autovacuum is off in this test.
      expect(/^(?:OK|WARNING|CRITICAL) .*/m.exec(text)?.[0]).toMatch(/^CRITICAL vacuum: /)
    }
  })

  test('runs only the requested checks', async () => {
    expect((await textOf(['cache'])).match(/^[A-Z]+ \w+:/gm)).toEqual(['OK cache:'])
    expect(await call(['cash'])).toMatchObject({
      isError: true,
      text: expect.stringContaining('checks[0] must be one of "wraparound"'),
    })
  })

  test('finds invalid, duplicate and unused indexes', async () => {
    await run(`
      CREATE TABLE indexed (id int PRIMARY KEY, other int, third text);
      INSERT INTO indexed SELECT n, n, n FROM generate_series(1, 60000) n;
      CREATE INDEX other_one ON indexed (other); CREATE INDEX other_two ON indexed (other);
      CREATE INDEX other_way ON indexed (other DESC); CREATE INDEX id_again ON indexed (id);
      CREATE INDEX used ON indexed (third);
      CREATE INDEX partial ON indexed (other) WHERE other > 59990;
      UPDATE indexed SET third = 'x' WHERE id < 3; ANALYZE indexed`)
    await run(`CREATE UNIQUE INDEX CONCURRENTLY broken ON indexed (third)`).catch(() => {})
    await run(`SET enable_seqscan = off; SELECT id FROM indexed WHERE third = '77'`)
    await expect.poll(() => textOf(['indexes'])).not.toContain('public.used')
    const text = await textOf(['indexes'])
    expect(text).toContain('invalid: public.broken on indexed')
    expect(text).toContain('duplicate on public.indexed: other_one, other_two; all but the first can go')
    expect(text).toContain('duplicate on public.indexed: indexed_pkey, id_again;')
    expect(text).toMatch(/unused: public\.other_way on indexed \(1\.3 MiB\)/)
    expect(text).not.toContain('partial')
    expect(text).toMatch(/WARNING indexes: 1 invalid, 2 duplicate, [34] unused/)
  })

  test('estimates bloat of tables and indexes, and reports dead rows and stale statistics', async () => {
    await run(`
      CREATE TABLE bloated (id bigint PRIMARY KEY, filler text) WITH (autovacuum_enabled = off);
      INSERT INTO bloated SELECT n, repeat('x', 100) FROM generate_series(1, 200000) n;
      CREATE TABLE full_table AS TABLE bloated; ANALYZE full_table; ANALYZE bloated`)
    expect(await textOf(['bloat'])).toContain('OK bloat: 0 bloated')
    await run('DELETE FROM bloated WHERE id % 10 <> 0')
    await expect.poll(() => textOf(['vacuum'])).toMatch(/public\.bloated: 180,000 dead of 200,000 rows \(90 %\)/)
    expect(await textOf(['vacuum'])).toContain('CRITICAL vacuum')
    await run('ANALYZE bloated')
    const text = await textOf(['bloat'])
    expect(text).toMatch(/WARNING bloat: 1 bloated/)
    expect(text).toMatch(/public\.bloated: 2\d MiB of 2\d MiB \(9\d(\.\d)? %\)/)
    expect(text).not.toContain('full_table')
  })

  test('reports sequences near the maximum of the column that they fill', async () => {
    await run(`
      CREATE TABLE numbered (id int); CREATE SEQUENCE by_column OWNED BY numbered.id; SELECT setval('by_column', 2000000000);
      CREATE SEQUENCE "Far off"; SELECT setval('"Far off"', 2000000000);
      CREATE TABLE identified (id smallint GENERATED ALWAYS AS IDENTITY); SELECT setval('identified_id_seq', 25000);
      CREATE SEQUENCE round AS smallint CYCLE; SELECT setval('round', 32767)`)
    const text = await textOf(['sequences'])
    expect(text).toContain('CRITICAL sequences: 2 near their end')
    expect(text).toContain('- public.by_column: 2,000,000,000 of 2,147,483,647 (93.1 %)')
    expect(text).toContain('- public.identified_id_seq: 25,000 of 32,767 (76.3 %)')
  })

  test('reports which session waits for which other session', async () => {
    const [holder, waiter] = [
      new pg.Client(server.postgres.uri('postgres')),
      new pg.Client(server.postgres.uri('postgres')),
    ]
    await holder.connect()
    await waiter.connect()
    await run('CREATE TABLE held (id int)')
    await holder.query('BEGIN; LOCK TABLE held')
    const waiting = waiter.query('SELECT * FROM held').catch(() => {})
    await expect
      .poll(() => textOf(['transactions']), { timeout: 10_000 })
      .toMatch(/1 session waits for a lock[\s\S]*pid \d+ has waited \d s for a lock on held, held up by pid \d+/)
    await holder.end()
    await waiting
    await waiter.end()
  })

  test('counts connections against the limit', async () => {
    expect(await textOf(['connections'])).toMatch(/OK connections: \d+ of 17 used/)
    const clients = Array.from({ length: 13 }, () => new pg.Client(server.postgres.uri('postgres')))
    await Promise.all(clients.map(client => client.connect()))
    expect(await textOf(['connections'])).toMatch(/(WARNING|CRITICAL) connections: 1[4-7] of 17 used/)
    await Promise.all(clients.map(client => client.end()))
  })

  test('reports replication slots that no client reads', async () => {
    await run(`SELECT pg_create_physical_replication_slot('left_behind', true)`)
    const text = await textOf(['replication'])
    expect(text).toMatch(/WARNING replication: 0 standbys, 1 slot/)
    expect(text).toMatch(/- slot left_behind, which no client reads, keeps \d.* of WAL \(reserved\); drop it/)
    await run(`SELECT pg_drop_replication_slot('left_behind')`)
  })

  test('reports why a check failed, and runs the other checks', async () => {
    await run('CREATE DATABASE locked_out')
    await server.postgres.run('REVOKE EXECUTE ON FUNCTION mxid_age FROM PUBLIC', 'locked_out')
    const text = await textOf(undefined, { database: 'locked_out', user: 'nobody', name: 'locked_out' })
    expect(text).toContain('UNKNOWN wraparound: permission denied for function mxid_age (SQLSTATE 42501)')
    expect(text).toContain('OK sequences')
    expect(await call(undefined, { port: 1, name: 'gone' })).toMatchObject({ isError: true })
  })
})

const rows = (names: string, ...values: (string | null)[][]): Rows => ({
  columns: names.split(' ').map(name => ({ name, type: 25 })),
  rows: values,
})

describe('thresholds', () => {
  test.each([
    ['ok', 300_000_000],
    ['warning', 400_000_000],
    ['critical', 1_600_000_000],
  ])('transaction ids: the level is %s at an age of %d', (level, age) => {
    const databases = rows(
      'name age multixacts freeze_age',
      ['one', '5', String(age), '200000000'],
      ['two', '6', '7', '200000000'],
    )
    const result = wraparoundCheck.evaluate([databases, rows('name age', ['public.old', String(age)])])
    expect(result.level).toBe(level)
    expect(result.findings.length).toBe(level === 'ok' ? 0 : 2)
  })

  const gibibyte = 1_073_741_824
  type Situation = { lag?: number; status?: string; active?: string; standby?: string; seconds?: number }
  test.each<[string, Situation]>([
    ['ok', { lag: gibibyte - 1 }],
    ['warning', { lag: gibibyte }],
    ['critical', { lag: 10 * gibibyte }],
    ['critical', { status: 'lost' }],
    ['warning', { active: 'f' }],
    ['warning', { standby: 't', seconds: 60 }],
    ['critical', { standby: 't', seconds: 600 }],
  ])(
    'replication: the level is %s with %o',
    (level, { lag = 0, status = 'reserved', active = 't', standby = 'f', seconds = 0 }) => {
      const result = replicationCheck.evaluate([
        rows('name state bytes', ['one', 'streaming', String(lag)]),
        rows('name active status bytes', ['slot', active, status, '0']),
        rows('standby seconds', [standby, String(seconds)]),
      ])
      expect(result.level).toBe(level)
    },
  )

  test('formats numbers for people', () => {
    expect([0, 1_023, 1_024, 1_536, 20 * 1_048_576, 5 * 1_024 ** 4].map(size)).toEqual([
      '0 B',
      '1023 B',
      '1 KiB',
      '1.5 KiB',
      '20 MiB',
      '5 TiB',
    ])
    expect([5, 119, 120, 7_200, 172_800].map(duration)).toEqual(['5 s', '119 s', '2 min', '2 h', '2 days'])
  })
})
