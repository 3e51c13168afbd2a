/**
 * Statements that try more than a read of a read-only database. The test sends them with a superuser login, so Postgres
 * alone would execute them. Each statement must be refused or harmless. The server refuses a statement before it sends
 * anything to Postgres.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { createCatalogue } from '../catalogue/index.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { Tool } from '../core/tool.ts'
import { createEntries } from '../database/entries.ts'
import { createDatabaseAccess, type Databases } from '../database/index.ts'
import { callTool, databaseOf } from '../testing/calls.ts'
import { createConfirmations } from './confirmation.ts'
import { countRows } from './count-rows.ts'
import { createCursors } from './cursor.ts'
import { executeExplain } from './execute-explain.ts'
import { queryDatabase } from './query-database.ts'

let postgres: TestPostgres
let databases: Databases
let watcher: pg.Client
const confirmations = createConfirmations(new Uint8Array(32), Date.now)
const cursors = createCursors(new Uint8Array(32), Date.now)
let tools: { readonly query: Tool; readonly explain: Tool; readonly count: Tool }
const sent: string[] = []
const refusals: string[] = []
const warnings: string[] = []

beforeAll(async () => {
  postgres = await startPostgres('18', { shared_preload_libraries: 'pg_stat_statements' })
  await postgres.run(`
    CREATE EXTENSION dblink; CREATE EXTENSION xml2; CREATE EXTENSION tablefunc; CREATE EXTENSION pgcrypto; CREATE EXTENSION pg_stat_statements;
    CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2);
    CREATE SEQUENCE s; CREATE TABLE odd_names (system int, nextval int, pg_read_file int);
    CREATE FUNCTION writes() RETURNS int LANGUAGE sql VOLATILE SECURITY DEFINER AS 'INSERT INTO t VALUES (9) RETURNING n';
    CREATE FUNCTION writes_row(t) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END';
    CREATE FUNCTION writes_any(anyelement) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END';
    CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
    CREATE FUNCTION lies() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN INSERT INTO t VALUES (9); RETURN 1; END';
    CREATE FUNCTION locks() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM pg_advisory_lock(99); RETURN 1; END';
    CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END';
    CREATE FUNCTION doubles(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1 * 2; END';
    CREATE TABLE sums (doubles int, pg_read_file text); INSERT INTO sums VALUES (8, 'x');
    CREATE VIEW documents AS SELECT * FROM xpath_table('n', 'n::text', 't', '/a', 'true') AS x(a text, b text);
    CREATE OPERATOR #+# (LEFTARG = int, RIGHTARG = int, FUNCTION = adds);
    CREATE AGGREGATE loud (int) (SFUNC = adds, STYPE = int, INITCOND = '0');
    CREATE TYPE odd AS (n int);
    CREATE FUNCTION to_odd(int) RETURNS odd LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ROW($1); END';
    CREATE CAST (int AS odd) WITH FUNCTION to_odd(int);
    CREATE VIEW calls AS SELECT writes() AS n;
    CREATE VIEW over_calls AS SELECT * FROM calls;
    CREATE VIEW ends AS SELECT pg_terminate_backend(pid) FROM pg_stat_activity;
    CREATE VIEW numbers AS SELECT n, now() AS at, random() AS r FROM t;
    CREATE SCHEMA apart; CREATE FUNCTION apart.lower(text) RETURNS text LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END';`)
  watcher = new pg.Client(postgres.uri('postgres'))
  await watcher.connect()
  const database: DatabaseSettings = databaseOf(postgres, { poolSize: 1, statementTimeoutMs: 2_000 })
  databases = createDatabaseAccess({
    maximumBytes: 10_000_000,
    audit: ({ author, statement, outcome }) => {
      if (author === 'caller') (outcome === 'refused' ? refusals : sent).push(statement)
    },
    warn: (facts, message) => void warnings.push(`${JSON.stringify(facts)} ${message}`),
  })
  const parts = {
    entries: createEntries(() => [database]),
    databases,
    catalogue: createCatalogue(databases, Date.now),
    limits: { resultTokens: 10_000, resultBytes: 10_000_000, requestBytes: 10_000_000 },
  }
  tools = {
    query: queryDatabase(parts, confirmations, cursors),
    explain: executeExplain(parts),
    count: countRows(parts),
  }
})
afterAll(async () => {
  databases?.close()
  await watcher?.end()
  await postgres?.stop()
})

async function call(tool: Tool, args: JsonObject): Promise<{ isError: boolean; text: string }> {
  const outcome = await callTool(tool, args)
  if (outcome.kind !== 'result') throw new Error('unexpected request for input on a read-only database')
  const [content] = outcome.result.content
  return { isError: outcome.result.isError === true, text: content?.type === 'text' ? content.text : '' }
}
const query = (sql: string) => call(tools.query, { query: sql })

/** The state that a successful attack would change. */
const state = async () =>
  (
    await watcher.query(`SELECT (SELECT array_agg(n ORDER BY n) FROM t) AS rows, (SELECT last_value || is_called::text FROM s) AS sequence,
      (SELECT count(*) FROM pg_largeobject_metadata) AS objects, (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks,
      (SELECT count(*) FROM pg_collation) AS collations, (SELECT count(*) FROM pg_class WHERE relname IN ('made', 'pwned')) AS made,
      (SELECT count(*) FROM pg_prepared_xacts) AS prepared`)
  ).rows[0]

const refused: readonly string[] = [
  // Writes, undisguised and disguised.
  'INSERT INTO t VALUES (3)',
  'UPDATE t SET n = 3',
  'DELETE FROM t',
  'MERGE INTO t USING (SELECT 1 AS n) AS x ON t.n = x.n WHEN MATCHED THEN DELETE',
  'WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone',
  'SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) y, LATERAL (SELECT writes()) z',
  'WITH a AS (WITH b AS (INSERT INTO t VALUES (3) RETURNING n) SELECT * FROM b) SELECT * FROM a',
  'SELECT 1 AS n INTO made',
  'SELECT 1 AS n INTO TEMP made',
  'CREATE TABLE made AS SELECT 1',
  'CREATE TEMP TABLE made (n int)',
  'DROP TABLE t',
  'TRUNCATE t',
  'SELECT * FROM t FOR UPDATE',
  'SELECT * FROM (SELECT * FROM t FOR SHARE) x',
  'EXPLAIN ANALYZE DELETE FROM t',
  'EXPLAIN ANALYZE SELECT writes()',
  'EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1',
  'EXPLAIN ANALYZE EXECUTE p',
  // Several statements, and comments to hide them.
  'SELECT 1; DROP TABLE t',
  'COMMIT; DROP TABLE t',
  'SELECT 1 /* ; */; /* */ DROP TABLE t --',
  "SELECT 'a'';--'; DROP TABLE t",
  'SELECT $x$ $y$ $x$; DROP TABLE t',
  'SELECT 1 /* /* */; DROP TABLE t; */ ; DROP TABLE t',
  "SELECT E'\\''; DROP TABLE t; --'",
  // Transactions and session state.
  'COMMIT',
  'ROLLBACK',
  'BEGIN READ WRITE',
  'END; BEGIN READ WRITE',
  'SET TRANSACTION READ WRITE',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
  'SET default_transaction_read_only = off',
  'SET ROLE postgres',
  'SET SESSION AUTHORIZATION postgres',
  'RESET ALL',
  'DISCARD ALL',
  "SELECT set_config('transaction_read_only', 'off', true)",
  "SELECT pg_catalog.set_config('transaction_read_only', 'off', false)",
  `SELECT "set_config"('work_mem', '1MB', false)`,
  `SELECT U&"set\\005fconfig"('work_mem', '1MB', false)`,
  "UPDATE pg_settings SET setting = 'off' WHERE name = 'transaction_read_only'",
  'PREPARE p AS DELETE FROM t',
  'EXECUTE p',
  'DECLARE c CURSOR WITH HOLD FOR SELECT 1',
  'LISTEN x',
  "NOTIFY x, 'y'",
  "SELECT pg_notify('x', 'y')",
  "LOAD 'x'",
  'LOCK TABLE t',
  "ALTER SYSTEM SET work_mem = '1MB'",
  // Procedural code.
  'DO $$ BEGIN DELETE FROM t; END $$',
  'CALL writes()',
  'SELECT writes()',
  'SELECT public.writes()',
  'SELECT * FROM writes()',
  'SELECT * FROM ROWS FROM (writes())',
  'SELECT n FROM t WHERE writes() = 1',
  'SELECT n FROM t ORDER BY writes()',
  'SELECT n FROM t GROUP BY n HAVING writes() = n',
  'SELECT count(*) FILTER (WHERE writes() = 1) FROM t',
  'SELECT sum(n) OVER (ORDER BY writes()) FROM t',
  'SELECT n FROM t LIMIT writes()',
  'VALUES (writes())',
  'SELECT CASE WHEN true THEN writes() END',
  'SELECT ARRAY[writes()]',
  'SELECT (SELECT writes())',
  'SELECT t.writes_row FROM t',
  'SELECT (t).writes_row FROM t',
  'SELECT t.writes_any FROM t',
  'SELECT (SELECT x FROM t AS x LIMIT 1).writes_row',
  // Function calls in attribute notation (`value.function`) on a value that is not a row.
  'SELECT (1).doubles',
  'SELECT (n).doubles FROM t',
  'SELECT (ARRAY[1])[1].doubles',
  'SELECT x.doubles FROM generate_series(1, 1) AS x',
  'SELECT generate_series.doubles FROM generate_series(1, 1)',
  'SELECT "int4".doubles FROM CAST(1 AS int)',
  'SELECT x.doubles FROM ROWS FROM (generate_series(1, 1)) AS x',
  'SELECT (SELECT x.doubles) FROM t, LATERAL generate_series(1, n) AS x',
  "SELECT ('PG_VERSION'::text).pg_read_file",
  "SELECT x.pg_read_file FROM unnest(ARRAY['PG_VERSION']) AS x",
  "SELECT x.pg_ls_dir FROM unnest(ARRAY['.']) AS x",
  'SELECT x.pg_terminate_backend FROM pg_backend_pid() AS x',
  "SELECT ('host=127.0.0.1'::text).dblink_connect",
  "SELECT ('SELECT 1, 2, pg_read_file(''PG_VERSION'')'::text).crosstab2",
  'SELECT (1).loud',
  'SELECT (1).odd',
  'SELECT x.odd FROM generate_series(1, 1) AS x',
  'SELECT 1 #+# 2',
  'SELECT 1 OPERATOR(public.#+#) 2',
  'SELECT loud(n) FROM t',
  'SELECT 1::odd',
  'SELECT CAST(n AS public.odd) FROM t',
  'SELECT odd(1)',
  "SELECT apart.lower('X')",
  'SELECT * FROM calls',
  'SELECT * FROM over_calls',
  'TABLE calls',
  'SELECT * FROM ends',
  // Text that Postgres would execute as a statement.
  "SELECT query_to_xml('DELETE FROM t', true, true, '')",
  "SELECT table_to_xml('t', true, true, '')",
  "SELECT database_to_xml(true, true, '')",
  "SELECT * FROM ts_stat('SELECT writes()::text::tsvector')",
  "SELECT * FROM crosstab('SELECT 1, 2, writes()') AS c(a int, b int)",
  "SELECT * FROM connectby('t', 'n', 'n', '1', 0) AS c(a int, b int, l int)",
  "SELECT ts_rewrite('a'::tsquery, 'SELECT writes()::text::tsquery, ''b''::tsquery')",
  "SELECT * FROM xpath_table('n', 'n::text', 't', '/a', 'writes() = 1') AS x(a text, b text)",
  'SELECT * FROM documents',
  // Files and programs.
  "COPY t TO PROGRAM 'touch /tmp/pwned'",
  "COPY (SELECT 1) TO PROGRAM 'touch /tmp/pwned'",
  "COPY t FROM PROGRAM 'echo 1'",
  "COPY t TO '/tmp/pwned'",
  'COPY t FROM STDIN',
  'COPY t TO STDOUT',
  "SELECT pg_read_file('PG_VERSION')",
  "SELECT pg_catalog.pg_read_file('PG_VERSION', 0, 10)",
  "SELECT PG_READ_FILE('PG_VERSION')",
  "SELECT pg_read_binary_file('PG_VERSION')",
  "SELECT * FROM pg_ls_dir('.')",
  'SELECT * FROM pg_ls_waldir()',
  'SELECT * FROM pg_ls_logdir()',
  "SELECT * FROM pg_stat_file('PG_VERSION')",
  'SELECT pg_current_logfile()',
  'SELECT * FROM pg_hba_file_rules',
  'TABLE pg_catalog.pg_ident_file_mappings',
  "SELECT setting FROM pg_file_settings WHERE name = 'primary_conninfo'",
  `SELECT '${'\ud800字'.repeat(20)}', pg_read_file($$PG_VERSION$$)`,
  // Large objects.
  "SELECT lo_import('PG_VERSION')",
  "SELECT lo_export(1, '/tmp/pwned')",
  'SELECT lo_create(7)',
  "SELECT lo_from_bytea(0, 'x')",
  'SELECT lo_unlink(7)',
  'SELECT lo_get(7)',
  // Other servers and sessions.
  "SELECT * FROM dblink('host=127.0.0.1 dbname=postgres user=postgres', 'DELETE FROM t RETURNING n') AS d(n int)",
  "SELECT dblink_connect('x', 'host=127.0.0.1')",
  "SELECT dblink_exec('x', 'DROP TABLE t')",
  'SELECT pg_terminate_backend(pg_backend_pid())',
  'SELECT pg_cancel_backend(1)',
  'SELECT pg_reload_conf()',
  'SELECT pg_rotate_logfile()',
  "SELECT pg_create_restore_point('x')",
  'SELECT pg_switch_wal()',
  'SELECT pg_promote()',
  'SELECT pg_stat_reset()',
  "SELECT pg_create_physical_replication_slot('x', true)",
  "SELECT pg_logical_emit_message(false, 'x', 'y')",
  'SELECT pg_export_snapshot()',
  "SELECT pg_import_system_collations('public')",
  // Locks and sequences.
  'SELECT pg_advisory_lock(1)',
  'SELECT pg_try_advisory_lock(1)',
  'SELECT pg_advisory_xact_lock(1)',
  "SELECT nextval('s')",
  "SELECT setval('s', 100)",
  "SELECT pg_catalog.nextval('public.s'::regclass)",
]

test.each(refused)('refuses %s', async sql => {
  const before = [await state(), sent.length]
  const { isError, text } = await query(sql)
  expect(text).not.toBe('')
  expect([isError, text]).toEqual([true, expect.not.stringContaining('SQLSTATE')])
  expect([await state(), sent.length]).toEqual(before)
  expect(refusals.at(-1)).toBe(sql)
})

test('Postgres and the parser agree on the ends of strings, whatever settings the role has', async () => {
  await postgres.run(
    `CREATE ROLE backslash LOGIN SUPERUSER; ALTER ROLE backslash SET standard_conforming_strings = off`,
  )
  const own = databaseOf(postgres, { name: 'backslash', user: 'backslash' })
  const parts = {
    entries: createEntries(() => [own]),
    databases,
    catalogue: createCatalogue(databases, Date.now),
    limits: { resultTokens: 10_000, resultBytes: 1, requestBytes: 1 },
  }
  const { text } = await call(queryDatabase(parts, confirmations, cursors), {
    query: `SELECT 'x\\'' || pg_read_file(''PG_VERSION'') --' AS v`,
  })
  expect(text).toContain(`\nx\\\\' || pg_read_file('PG_VERSION') --\n`)
})

/** Statements that Postgres itself refuses, or that are harmless. */
const allowed: readonly string[] = [
  'SELECT lies()',
  'SELECT locks()',
  'SELECT 1 -- at postgres://postgres@127.0.0.1:1/template1',
  'SELECT * FROM t WHERE n = 1 /* DROP TABLE t; */',
  "SELECT '; DROP TABLE t; --'",
  'SELECT $$; DELETE FROM t$$',
  'SELECT txid_current()',
]
test.each(allowed)('the database is not affected by %s', async sql => {
  const before = await state()
  await query(sql)
  expect(await state()).toEqual(before)
  expect(existsSync('/tmp/pwned')).toBe(false)
})

const answered: readonly (readonly [sql: string, contains: string])[] = [
  ['SELECT reads()', '\n2\n'],
  [
    'SELECT n, random() >= 0, clock_timestamp() > now(), gen_random_uuid() IS NOT NULL, uuidv7() IS NOT NULL FROM t WHERE n = 1',
    '1\tt\tt\tt\tt',
  ],
  ["SELECT lower('ABC'), upper('x'), length(gen_random_bytes(4))", 'abc\tX\t4'],
  ['SELECT n FROM numbers WHERE n = 2', '\n2\n'],
  ["SELECT pg_size_pretty(pg_total_relation_size('t')) <> ''", '\nt\n'],
  ['SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM t', '1.5'],
  ['SHOW transaction_read_only', '\non\n'],
  ['TABLE t', '1\n2'],
  ["VALUES (1, 'x'), (2, NULL)", '2\t\\N'],
  ['EXPLAIN SELECT * FROM t', 'Seq Scan on t'],
  ['(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1;', '1\n2'],
  ['SELECT pg_sleep(0.01)', 'pg_sleep'],
  ['SELECT count(*) > 0 FROM pg_stat_activity', '\nt\n'],
  ['SELECT count(calls) > 0 FROM pg_stat_statements', '\nt\n'],
  ['SELECT o.system, o.nextval, o.pg_read_file FROM odd_names o', 'system\tnextval\tpg_read_file'],
  ['SELECT count(*) >= 0 FROM pg_locks', '\nt\n'],
  ['SELECT s.doubles, s.pg_read_file FROM sums s, generate_series(1, 1) AS g', '8\tx'],
  ['SELECT x.doubles FROM (SELECT 5 AS doubles) AS x', '\n5\n'],
]
test.each(answered)('answers %s', async (sql, contains) => {
  const { isError, text } = await query(sql)
  expect([isError, text]).toEqual([false, expect.stringContaining(contains)])
})

describe('the same rules apply to', () => {
  test('execute_explain, with and without ANALYZE', async () => {
    for (const sql of [
      'SELECT writes()',
      "SELECT pg_read_file('PG_VERSION')",
      'DELETE FROM t',
      'SELECT 1; DROP TABLE t',
      'EXPLAIN SELECT 1',
      '',
    ]) {
      for (const analyze of [true, false])
        expect((await call(tools.explain, { query: sql, analyze })).isError).toBe(true)
    }
    expect((await call(tools.explain, { query: 'SELECT * FROM t' })).text).toContain('actual')
  })

  test('count_rows, whose condition must be one expression', async () => {
    const conditions = [
      'true) UNION SELECT 1 WHERE (true',
      'true); DROP TABLE t; --',
      'true) GROUP BY (n',
      'true, false',
      '1=1) -- ',
      'writes() = 1',
      "pg_read_file('PG_VERSION') IS NULL",
      'EXISTS (SELECT writes())',
      'n IN (WITH x AS (DELETE FROM t RETURNING n) SELECT n FROM x)',
      ')',
      'n = ',
    ]
    const before = await state()
    for (const where of conditions)
      expect([where, (await call(tools.count, { table: 't', where })).isError]).toEqual([where, true])
    for (const table of ['t; DROP TABLE t', 't" WHERE writes() = 1 --', 'nothing']) {
      expect((await call(tools.count, { table })).isError).toBe(true)
    }
    expect(await state()).toEqual(before)
    expect((await call(tools.count, { table: 't', where: 'n > 1 -- more' })).text).toBe('Count: 1')
    expect((await call(tools.count, { table: 'calls' })).isError).toBe(true)
  })
})

test('every statement ends at the time limit', async () => {
  const { isError, text } = await query('SELECT pg_sleep(60)')
  expect([isError, text]).toEqual([true, expect.stringContaining('longer than 2 s')])
})

test('no program ran, no file was written, and the privileged login was logged once', () => {
  expect(existsSync('/tmp/pwned') || existsSync(join(postgres.directory, 'data', 'pwned'))).toBe(false)
  expect(warnings.filter(message => message.includes('"main"') && message.includes('superuser'))).toHaveLength(1)
})

test('no statement shows settings that may contain a password', async () => {
  const own = databaseOf(postgres, { name: 'settings' })
  const limits = { resultTokens: 10_000, resultBytes: 1_000_000, requestBytes: 1 }
  const access = createDatabaseAccess({ maximumBytes: 1_000_000, audit: () => {}, warn: () => {} })
  const tool = queryDatabase(
    {
      entries: createEntries(() => [own]),
      databases: access,
      catalogue: createCatalogue(access, Date.now),
      limits,
    },
    confirmations,
    cursors,
  )
  const run = (sql: string) => call(tool, { query: sql })
  const shown = async (sql: string) => expect((await run(sql)).text, sql).not.toContain('Refused')
  const hidden = async (sql: string) => {
    const { isError, text } = await run(sql)
    expect([isError, text], sql).toEqual([true, expect.stringContaining('Settings that may hold a password')])
    expect(text).not.toContain('hunter2')
  }
  await shown('SELECT name, setting FROM pg_settings')
  await shown('SHOW ALL')
  await hidden('SHOW primary_conninfo')
  await postgres.run("ALTER SYSTEM SET primary_conninfo = 'host=other password=hunter2'")
  await postgres.run('SELECT pg_reload_conf()')
  try {
    access.forget(own)
    for (const sql of [
      'SHOW Primary_ConnInfo',
      'SHOW "ssl_passphrase_command"',
      'SHOW app.jwt_secret',
      'SHOW ALL',
      'SELECT * FROM pg_settings',
      'SELECT * FROM pg_catalog.pg_settings',
      'SELECT * FROM pg_show_all_settings()',
      "SELECT current_setting('primary_conninfo')",
      "SELECT pg_catalog.current_setting('PRIMARY_CONNINFO'::text, true)",
      "SELECT current_setting('primary_' || 'conninfo')",
      "SELECT s.current_setting FROM (SELECT 1) x, current_setting('work_mem') s",
      'EXPLAIN ANALYZE SELECT current_setting(n) FROM t',
    ])
      await hidden(sql)
    for (const sql of ['SHOW work_mem', "SELECT current_setting('work_mem')", 'SHOW password_encryption'])
      await shown(sql)
  } finally {
    await postgres.run('ALTER SYSTEM RESET primary_conninfo')
    access.close()
  }
})
