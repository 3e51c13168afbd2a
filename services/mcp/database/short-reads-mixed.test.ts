/**
 * Mixes short reads of several callers with reads that fail, sleep, end their connection, change session state or are
 * cancelled. Each read must receive only its own result.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { Durations } from '../../postgres/durations.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { anyone } from '../core/caller.ts'
import { callContext, databaseOf } from '../testing/calls.ts'
import type { AuditEntry } from './access.ts'
import { createDatabaseAccess } from './index.ts'

let postgres: TestPostgres
beforeAll(async () => {
  // Treats every read as a short read, whatever it does.
  vi.spyOn(Durations.prototype, 'ofShort').mockReturnValue(0.01)
  postgres = await startPostgres('17')
  await postgres.run(
    `CREATE FUNCTION locked() RETURNS text STABLE LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock_shared(7); RETURN ''; END$$`,
  )
})
afterAll(() => postgres?.stop())

/** A read returns its own label, and the state of its session and transaction. */
const state = `concat_ws(',', current_setting('search_path'), current_setting('work_mem'), current_setting('statement_timeout'),
  current_setting('transaction_read_only'), current_setting('standard_conforming_strings'), current_setting('DateStyle'),
  (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), (SELECT count(*) FROM pg_cursors WHERE name <> ''),
  (SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%' || 'set_config(''work_mem''%'))`
const clean = '"$user", public,4MB,20s,on,on,ISO, MDY,0,0,0'

type Kind = { readonly text: string; readonly argument: string; readonly weight: number }
const kinds = {
  state: { text: `SELECT $1::text || ${state} || $2`, argument: '', weight: 10 },
  dirty: {
    text: `SELECT $1::text || left(concat($2::text, set_config('search_path', 'pg_temp', false), set_config('work_mem', '1MB', false), set_config('DateStyle', 'German', false),
      set_config('statement_timeout', '1h', false), locked()), 0)`,
    argument: '',
    weight: 4,
  },
  many: { text: `SELECT $1::text || n || $2 FROM generate_series(1, 30) AS n`, argument: '', weight: 2 },
  failing: { text: `SELECT $1::text || locked() || 1 / $2::int`, argument: '0', weight: 2 },
  large: { text: `SELECT $1::text || repeat('x', $2::int)`, argument: '400000', weight: 1 },
  tooLarge: {
    text: `SELECT $1::text || repeat('x', $2::int) FROM generate_series(1, 3)`,
    argument: '400000',
    weight: 1,
  },
  slow: { text: `SELECT $1::text FROM pg_sleep($2::float)`, argument: '0.06', weight: 1 },
  ending: {
    text: `SELECT $1::text || pg_terminate_backend(pg_backend_pid() + $2::int)`,
    argument: '0',
    weight: 1,
  },
} as const satisfies Record<string, Kind>
type Name = keyof typeof kinds
const names = Object.keys(kinds) as Name[] // its own keys

const calls = fc.record({
  name: fc.oneof(...names.map(name => ({ weight: kinds[name].weight, arbitrary: fc.constant(name) }))),
  caller: fc.constantFrom('alice', 'bob', 'carol'),
  isCancelled: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
})

test('each read gets its own result in a clean session, and is recorded once', { timeout: 60_000 }, async () => {
  const noted: AuditEntry[] = []
  const access = createDatabaseAccess({ maximumBytes: 1_000_000, audit: entry => noted.push(entry), warn: () => {} })
  const database = databaseOf(postgres, { poolSize: 8, connectTimeoutMs: 20_000, statementTimeoutMs: 20_000 })

  async function run({ name, caller, isCancelled }: { name: Name; caller: string; isCancelled: boolean }, id: string) {
    const { text, argument } = kinds[name]
    const leaving = new AbortController()
    const callerOf = { caller: { ...anyone, kind: 'user' as const, principal: `user:${caller}` }, requestId: id }
    const running = access.run(
      database,
      { text, values: [`${id} `, argument], mode: 'read', maximumRows: 10 },
      callContext({ ...callerOf, signal: leaving.signal }),
      'query_database',
    )
    if (isCancelled) setTimeout(() => leaving.abort(new Error('gone')), Number(id) % 4)
    const found = await running.then(
      ({ texts, isTruncated }) =>
        `${isTruncated ? 'cut ' : ''}${texts
          .decoded()
          .map(([cell]) => cell)
          .join('|')}`,
      (error: Error & { sqlState?: string }) => error.sqlState ?? error.message,
    )
    return { name, id, isCancelled, found }
  }

  const expected = (name: Name, id: string): string | RegExp => {
    switch (name) {
      case 'state':
        return `${id} ${clean}`
      case 'dirty':
      case 'slow':
        return `${id} `
      case 'many':
        return Array.from({ length: 10 }, (_, at) => `${id} ${at + 1}`).join('|')
      case 'failing':
        return '22012'
      case 'large':
        return `${id} ${'x'.repeat(400_000)}`
      case 'tooLarge':
        return new RegExp(`^cut ${id} x{400000}\\|${id} x{400000}$`)
      case 'ending':
        return /57P01|connection/
    }
  }

  const samples = fc.sample(calls, { numRuns: 480, seed: 11 })
  let number = 0
  for (let from = 0; from < samples.length; from += 24) {
    const outcomes = await Promise.all(samples.slice(from, from + 24).map(sample => run(sample, String(++number))))
    for (const { name, id, isCancelled, found } of outcomes) {
      if (isCancelled && found === 'gone') continue
      const wanted = expected(name, id)
      if (typeof wanted === 'string') expect(found, name).toBe(wanted)
      else expect(found, name).toMatch(wanted)
    }
  }
  expect(new Set(noted.map(({ requestId }) => requestId)).size).toBe(number)
  expect(noted).toHaveLength(number)
  for (const { requestId, principal } of noted) expect(principal).toBe(`user:${samples[Number(requestId) - 1]?.caller}`)
  access.close()
  const connections = `SELECT FROM pg_stat_activity WHERE application_name = 'espalier-mcp'`
  await expect.poll(async () => (await postgres.run(connections)).rowCount, { timeout: 10_000 }).toBe(0)
})
