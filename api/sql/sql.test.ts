/** Statements over HTTP, with a real Postgres. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { expectError, until } from '../testing/client.ts'
import { type SqlDatabase, startSqlDatabase } from './testing/database.ts'

let database: SqlDatabase
beforeAll(async () => {
  database = await startSqlDatabase()
  await database.as(
    'app',
    'CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, NULL), (2, $$zwei$$)',
  )
})
afterAll(() => database?.stop())

describe('a read', () => {
  test('returns columns, rows as text, and the executed commands', async () => {
    const { lines } = await database.sql({ text: 'SELECT id, name, id > 1 AS big FROM items ORDER BY id' })
    const [{ oid }] = await database.as('app', "SELECT 'items'::regclass::oid::int AS oid")
    expect(lines).toEqual([
      {
        type: 'columns',
        statement: 0,
        columns: [
          { name: 'id', type: 23, table: oid, column: 1 },
          { name: 'name', type: 25, table: oid, column: 2 },
          { name: 'big', type: 16 },
        ],
      },
      {
        type: 'rows',
        statement: 0,
        rows: [
          ['1', null, 'f'],
          ['2', 'zwei', 't'],
        ],
      },
      { type: 'complete', statement: 0, command: 'SELECT', row_count: 2, ms: expect.any(Number), more: false },
    ])
  })

  test('runs as app_read_only in a READ ONLY transaction, or as the requested role', async () => {
    const text =
      "SELECT current_user, session_user, current_setting('transaction_read_only'), current_setting('application_name')"
    expect(await database.rows(text)).toEqual([['app_read_only', 'app_read_only', 'on', 'espalier sql']])
    for (const [role, name] of [
      ['application', 'app'],
      ['admin', 'admin'],
    ])
      expect(await database.rows(text, { role })).toEqual([[name, name, 'on', 'espalier sql']])
  })

  test('runs several statements on one snapshot, and returns each result', async () => {
    const { lines } = await database.sql({
      text: 'SELECT txid_current_snapshot(); -- two\nTABLE items; SELECT txid_current_snapshot();',
    })
    expect(
      lines.filter(({ type }) => type === 'complete').map(({ statement, row_count }) => [statement, row_count]),
    ).toEqual([
      [0, 1],
      [1, 2],
      [2, 1],
    ])
    const [first, , last] = lines.filter(({ type }) => type === 'rows')
    expect(first.rows).toEqual(last.rows)
  })

  test('has parameters, whose types Postgres infers', async () => {
    expect(
      await database.rows('SELECT name FROM items WHERE id = $1 AND $2 AND $3::text IS NULL', {
        parameters: [2, true, null],
      }),
    ).toEqual([['zwei']])
    const { lines } = await database.sql({ text: 'SELECT $1::int', parameters: ['x'] })
    expect(lines.at(-1)).toMatchObject({ type: 'error', sqlstate: '22P02' })
  })

  test('ends at max_rows, and reports whether there are more rows', async () => {
    const text = 'SELECT generate_series(1, 2500)'
    for (const [max_rows, rows, more] of [
      [1, 1, true],
      [1000, 1000, true],
      [2499, 2499, true],
      [2500, 2500, false],
      [3000, 2500, false],
    ] as const) {
      const { lines } = await database.sql({ text: `${text}; SELECT 7`, max_rows })
      const of = (statement: number) => lines.filter(line => line.statement === statement)
      expect(of(0).flatMap(line => line.rows ?? [])).toHaveLength(rows)
      expect(of(0).at(-1)).toMatchObject({ type: 'complete', command: 'SELECT', row_count: rows, more })
      expect(of(1).flatMap(line => line.rows ?? [])).toEqual([['7']])
    }
  })

  test('reports an error at its position in the whole text, and runs nothing after it', async () => {
    const text = "SELECT '🐘'; SELECT 1 AS a; SELECT nothing FROM items; SELECT 2"
    const { status, lines } = await database.sql({ text })
    expect(status).toBe(200)
    expect(lines.at(-1)).toMatchObject({
      type: 'error',
      statement: 2,
      sqlstate: '42703',
      position: [...text.slice(0, text.indexOf('nothing'))].length + 1,
    })
    expect(lines.filter(({ type }) => type === 'complete')).toHaveLength(2)
  })

  test('explains a statement as JSON', async () => {
    const [[plan]] = (await database.rows('SELECT * FROM items', { explain: 'plan' })) as [[string]]
    expect(JSON.parse(plan)[0].Plan).toMatchObject({ 'Node Type': 'Seq Scan', 'Relation Name': 'items' })
    const [[analyzed]] = (await database.rows('SELECT * FROM items WHERE id = $1', {
      explain: 'analyze',
      parameters: [1],
    })) as [[string]]
    expect(JSON.parse(analyzed)[0].Plan).toMatchObject({ 'Actual Rows': 1 })
    const { lines } = await database.sql({ text: 'SELECT x FROM items', explain: 'plan' })
    expect(lines.at(-1)).toMatchObject({ sqlstate: '42703', position: 8 })
  })
})

describe('a write', () => {
  const write = (text: string, more = {}) => database.sql({ text, mode: 'write', ...more })

  test('commits each statement, and returns notices and the number of changed rows', async () => {
    const { lines } = await write(
      "CREATE TABLE IF NOT EXISTS items (a int); INSERT INTO items VALUES (3, 'drei') RETURNING id; UPDATE items SET name = name; SELECT current_user; INSERT INTO items VALUES (3)",
    )
    expect(lines.filter(({ type }) => type === 'notice')).toMatchObject([{ severity: 'NOTICE', sqlstate: '42P07' }])
    const done = lines.filter(({ type }) => type === 'complete').map(({ command, row_count }) => [command, row_count])
    expect(done).toEqual([
      ['CREATE TABLE', 0],
      ['INSERT', 1],
      ['UPDATE', 3],
      ['SELECT', 1],
    ])
    expect(lines.find(line => line.type === 'rows' && line.statement === 3).rows).toEqual([['app']])
    expect(lines.at(-1)).toMatchObject({ type: 'error', statement: 4, sqlstate: '23505' })
    expect(await database.rows('SELECT count(*) FROM items')).toEqual([['3']])
    await write('DELETE FROM items WHERE id = 3')
  })

  test('can contain a transaction; an open transaction is rolled back, with a warning', async () => {
    expect((await write("BEGIN; INSERT INTO items VALUES (4, 'vier'); COMMIT")).lines.at(-1)).toMatchObject({
      command: 'COMMIT',
    })
    const { lines } = await write('BEGIN; DELETE FROM items')
    expect(lines.at(-1)).toMatchObject({ type: 'notice', severity: 'WARNING', sqlstate: '25P01' })
    expect(await database.rows('SELECT count(*) FROM items')).toEqual([['3']])
    await write('DELETE FROM items WHERE id = 4')
  })

  test('runs statements that cannot run in a transaction', async () => {
    expect(
      (
        await write('CREATE INDEX CONCURRENTLY by_name ON items (name); VACUUM items; DROP INDEX CONCURRENTLY by_name')
      ).lines.at(-1),
    ).toMatchObject({
      type: 'complete',
      command: 'DROP INDEX',
    })
  })

  test('reports an error of the commit instead of a success', async () => {
    await write('CREATE TABLE later (id int PRIMARY KEY, up int REFERENCES later DEFERRABLE INITIALLY DEFERRED)')
    const { lines } = await write('INSERT INTO later VALUES (1, 9)')
    expect(lines).toMatchObject([{ type: 'error', sqlstate: '23503' }])
  })

  test('rolls back a statement that it only explains', async () => {
    const [[plan]] = (await database.rows('DELETE FROM items', { mode: 'write', explain: 'analyze' })) as [[string]]
    expect(JSON.parse(plan)[0].Plan).toMatchObject({ Operation: 'Delete' })
    expect(await database.rows('SELECT count(*) FROM items')).toEqual([['2']])
  })

  test.each(['COPY items TO STDOUT', 'COPY items FROM STDIN'])('refuses %s', async text => {
    expect((await write(text)).lines).toMatchObject([
      { type: 'error', sqlstate: '0A000', message: expect.stringMatching('psql') },
    ])
    await until(async () => (await database.sessions()).length === 0)
  })
})

describe('the API', () => {
  test('refuses a row of 2 MB, and returns a row of 1 MB', async () => {
    const { lines } = await database.sql({ text: "SELECT repeat('x', 2000000)" })
    expect(lines.at(-1)).toMatchObject({ type: 'error', sqlstate: '54000' })
    expect((await database.rows("SELECT repeat('x', 1000000)"))[0]?.[0]).toHaveLength(1_000_000)
    await until(async () => (await database.sessions()).length === 0)
  })

  test('ends a statement at its time limit, even if the statement changes the setting', async () => {
    expect((await database.sql({ text: 'SELECT pg_sleep(60)', timeout_seconds: 1 })).lines.at(-1)).toMatchObject({
      type: 'error',
      sqlstate: '57014',
    })
    const text = "SELECT set_config('statement_timeout', '0', false); SELECT pg_sleep(60)"
    const { lines } = await database.sql({ text, timeout_seconds: 1 })
    expect(lines.at(-1)).toMatchObject({ type: 'error', sqlstate: '57014', statement: 1 })
    await until(async () => (await database.sessions()).length === 0)
  })

  test('ends all statements together at a deadline, and releases their snapshot', async () => {
    const real = setTimeout
    const spied = vi
      .spyOn(globalThis, 'setTimeout')
      .mockImplementation(((call: () => void, ms?: number) =>
        real(call, ms === 605_000 ? 700 : ms)) as typeof setTimeout)
    try {
      const { lines } = await database.sql({ text: 'SELECT pg_sleep(0.2);'.repeat(1_000), timeout_seconds: 600 })
      const completed = lines.filter(({ type }) => type === 'complete').length
      expect(completed).toBeGreaterThan(0)
      expect(lines.at(-1)).toMatchObject({ type: 'error', sqlstate: '57014', statement: completed })
      expect(lines.at(-1).message).toContain('600 s together')
      await until(async () => (await database.sessions()).length === 0)
    } finally {
      spied.mockRestore()
    }
  })

  test.each([
    [{ text: ' ; -- nothing' }, /^text: contains no statement/],
    [{ text: 'SELECT 1;'.repeat(1_001) }, /^text: must have at most 1000 statements/],
    [{ text: 'SELECT 1; SELECT 2', parameters: [] }, /^parameters: only for a text of one statement; this text has 2/],
    [{ text: 'SELECT 1; SELECT 2', explain: 'plan' }, /^explain: only/],
    [{ text: 'SELECT \0' }, /^text: must not contain a zero byte/],
    [{ text: "SELECT '\ud800'" }, /^text: must be well-formed/],
    [{ text: 'SELECT $1', parameters: ['a\0'] }, /^parameters\[0\]: /],
    [{ text: 'SELECT 1; DELETE FROM items' }, /^text: statement 2 does not begin with/],
    [{ text: 'SELECT 1', max_rows: 0 }, /^max_rows: /],
    [{ text: 'SELECT 1', timeout_seconds: 601 }, /^timeout_seconds: /],
    [{ text: `SELECT '${'x'.repeat(65_536)}'` }, /^text: must be at most 65536/],
    [{ text: 'SELECT 1', role: 'postgres' }, /^role: /],
    [{ mode: 'read' }, /^text: is required/],
  ])('refuses %j', async (body, message) => {
    const { client, id } = database
    expectError(await client.call('POST', `/databases/${id}/sql`, { body }), 400, message)
  })

  test('refuses an Idempotency-Key, which this endpoint does not support', async () => {
    const { client, id } = database
    const headers = { 'idempotency-key': 'a' }
    expectError(
      await client.call('POST', `/databases/${id}/sql`, { body: { text: 'SELECT 1' }, headers }),
      400,
      /Idempotency-Key/,
    )
  })
})

test('the audit log has the caller and the mode, before and after the run, but no text and no parameters', async () => {
  const { client, id } = database
  client.audit.length = 0
  await database.sql({ text: "SELECT 'secret-text', $1; ", parameters: ['secret-parameter'] })
  await database.sql({ text: 'SELECT 1; SELECT x', role: 'admin' })
  const sha256 = expect.stringMatching(/^[0-9a-f]{64}$/)
  const common = { tenant: 'acme', member: 'ada', subject_id: id, status: 200 }
  const first = { database_id: id, mode: 'read', role: 'application_read_only', statements: 1, sha256 }
  const second = { ...first, role: 'admin', statements: 2 }
  expect(client.audit).toMatchObject([
    { ...common, sql: first },
    { ...common, sql: { ...first, result: 'completed', completed: 1 } },
    { ...common, sql: second },
    { ...common, sql: { ...second, result: 'failed', completed: 1, sqlstate: '42703' } },
  ])
  expect(client.audit[0]?.sql).not.toHaveProperty('result')
  expect(JSON.stringify(client.audit)).not.toContain('secret-')
  expect(await client.metrics.registry.metrics()).toMatch(
    /espalier_api_sql_requests_total\{mode="read",result="failed"\} [1-9]/,
  )
})
