/** No statement, view or function shows the catalogue's passwords and secret settings to any role. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { createCatalogue } from '../catalogue/index.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { createEntries } from '../database/entries.ts'
import { createDatabaseAccess, type Databases } from '../database/index.ts'
import { callContext, databaseOf } from '../testing/calls.ts'
import { createConfirmations } from './confirmation.ts'
import { countRows } from './count-rows.ts'
import { createCursors } from './cursor.ts'
import { queryDatabase } from './query-database.ts'

let postgres: TestPostgres
let databases: Databases

beforeAll(async () => {
  postgres = await startPostgres('18', { shared_preload_libraries: 'pg_stat_statements' })
  await postgres.run(`
    CREATE ROLE reader LOGIN; CREATE ROLE app LOGIN PASSWORD 'hunter2'; ALTER ROLE app SET rst.jwt_secret = 'hunter2'; ALTER ROLE app SET app.key = 'hunter2';
    CREATE EXTENSION postgres_fdw; CREATE EXTENSION pg_stat_statements;
    CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'hunter2');
    CREATE USER MAPPING FOR reader SERVER other OPTIONS (user 'x', password 'hunter2');
    GRANT USAGE ON FOREIGN SERVER other TO reader;
    CREATE VIEW settings_of_roles AS SELECT rolname, rolconfig FROM pg_roles;
    CREATE VIEW over_settings AS SELECT * FROM settings_of_roles;
    CREATE MATERIALIZED VIEW kept AS SELECT setdatabase, array_to_string(setconfig, ' ') AS text FROM pg_db_role_setting;
    CREATE VIEW whole AS SELECT to_json(r) AS r FROM pg_user_mappings r;
    CREATE VIEW setting AS SELECT current_setting('app.jwt_secret', true);
    CREATE VIEW role_names AS SELECT rolname, rolsuper FROM pg_roles;
    CREATE FUNCTION configs() RETURNS SETOF text LANGUAGE sql STABLE AS 'SELECT rolconfig::text FROM pg_roles';
    CREATE FUNCTION atomic() RETURNS SETOF text LANGUAGE sql STABLE BEGIN ATOMIC SELECT setconfig::text FROM pg_db_role_setting; END;
    CREATE FUNCTION secret() RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN current_setting('app.jwt_secret', true); END $$;
    CREATE FUNCTION of_row(int) RETURNS SETOF text LANGUAGE sql STABLE AS 'SELECT passwd FROM pg_shadow';
    CREATE FUNCTION with_setting() RETURNS int LANGUAGE sql STABLE SET app.api_key = 'hunter2' AS 'SELECT 1';
    CREATE VIEW by_function AS SELECT * FROM configs();
    CREATE FUNCTION roles() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM pg_roles';
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    ANALYZE pg_authid; ANALYZE pg_db_role_setting;`)
  databases = createDatabaseAccess({ maximumBytes: 10_000_000, audit: () => {}, warn: () => {} })
})
afterAll(async () => {
  databases?.close()
  await postgres?.stop()
})

const settingsOf = (changed: Partial<DatabaseSettings>) =>
  databaseOf(postgres, { name: JSON.stringify(changed), ...changed })

async function run(database: DatabaseSettings, query: string): Promise<{ isError: boolean; text: string }> {
  const limits = { resultTokens: 10_000, resultBytes: 10_000_000, requestBytes: 10_000_000 }
  const confirmations = createConfirmations(new Uint8Array(32), Date.now)
  const catalogue = createCatalogue(databases, Date.now)
  const parts = { entries: createEntries(() => [database]), databases, catalogue, limits }
  const tool = queryDatabase(parts, confirmations, createCursors(new Uint8Array(32), Date.now))
  const outcome = await tool.call({ query }, callContext())
  if (outcome.kind !== 'result') throw new Error('unexpected request for input')
  const [content] = outcome.result.content
  return { isError: outcome.result.isError === true, text: content?.type === 'text' ? content.text : '' }
}

const hidden: readonly string[] = [
  'SELECT rolconfig FROM pg_roles',
  'SELECT * FROM pg_roles',
  'TABLE pg_catalog.pg_roles',
  'SELECT r.* FROM pg_roles r',
  'SELECT r FROM pg_roles r',
  'SELECT (r).rolname FROM pg_roles r',
  'SELECT pg_roles FROM pg_roles',
  'SELECT to_json(r) FROM pg_roles AS r',
  'SELECT r.to_json FROM pg_roles AS r',
  'SELECT r.row_to_json FROM pg_catalog.pg_roles AS r',
  'SELECT rolconfig(r) FROM pg_roles r',
  'SELECT m FROM pg_roles AS r(a, b, c, d, e, f, g, h, i, j, k, l, m)',
  'SELECT l FROM (pg_roles CROSS JOIN (SELECT 1) AS x) AS j(a, b, c, d, e, f, g, h, i, j, k, l, m)',
  'SELECT j FROM (pg_roles CROSS JOIN (SELECT 1) AS x) AS j',
  'SELECT (SELECT r.rolconfig) FROM pg_roles r',
  'SELECT x FROM pg_roles r, LATERAL (SELECT r) AS x',
  'SELECT x FROM pg_roles r, LATERAL (SELECT r.*) AS x',
  'SELECT x.* FROM (SELECT * FROM pg_roles) x',
  'WITH x AS (TABLE pg_roles) SELECT x FROM x',
  'SELECT 1 UNION ALL SELECT (SELECT count(*) FROM pg_roles r WHERE r::text LIKE $$%h%$$)',
  'SELECT rolname FROM pg_roles UNION SELECT rolconfig::text FROM pg_roles',
  "SELECT rolname FROM pg_roles NATURAL JOIN (SELECT ARRAY['app.key=hunter2'] AS rolconfig) x",
  "SELECT rolname FROM pg_roles JOIN (SELECT ARRAY['app.key=hunter2'] AS rolconfig) x USING (rolconfig)",
  "SELECT rolname FROM pg_roles WHERE array_to_string(rolconfig, '') LIKE '%h%'",
  'SELECT rolname FROM pg_roles ORDER BY rolconfig',
  'EXPLAIN (VERBOSE, ANALYZE) SELECT rolconfig FROM pg_roles',
  'SELECT useconfig FROM pg_user',
  'SELECT setconfig FROM pg_db_role_setting',
  'TABLE pg_db_role_setting',
  'SELECT umoptions FROM pg_user_mappings',
  'SELECT usename, option_name FROM pg_user_mappings, LATERAL pg_options_to_table(umoptions)',
  'SELECT option_value FROM information_schema.user_mapping_options',
  'SELECT * FROM information_schema._pg_user_mappings',
  'SELECT * FROM information_schema.foreign_server_options',
  'SELECT srvoptions FROM pg_foreign_server',
  'SELECT * FROM pg_foreign_server',
  'SELECT * FROM settings_of_roles',
  'SELECT rolname FROM over_settings',
  'TABLE kept',
  'SELECT * FROM public.whole',
  'TABLE setting',
  'TABLE by_function',
  'SELECT configs()',
  'SELECT * FROM public.configs()',
  'SELECT atomic()',
  'SELECT secret()',
  'SELECT (1).of_row',
  "SELECT proconfig FROM pg_proc WHERE proname = 'with_setting'",
  "SELECT pg_get_functiondef('with_setting'::regproc)",
]

const ofSuperusers: readonly string[] = [
  'SELECT rolname, rolpassword FROM pg_authid',
  'TABLE pg_authid',
  'SELECT passwd FROM pg_shadow',
  'SELECT usename FROM pg_shadow s WHERE s.passwd IS NOT NULL',
  'SELECT subconninfo FROM pg_subscription',
  'SELECT umoptions FROM pg_user_mapping',
  "SELECT histogram_bounds, most_common_vals FROM pg_stats WHERE tablename = 'pg_authid'",
  'SELECT stavalues1 FROM pg_statistic',
  'SELECT query FROM pg_stat_activity',
  'SELECT * FROM pg_stat_activity',
  'SELECT query FROM pg_stat_statements',
  'SELECT * FROM pg_stat_get_activity(NULL)',
  'SELECT * FROM pg_toast.pg_toast_2964',
]

const shown: readonly (readonly [sql: string, contains: string])[] = [
  ["SELECT r.rolname, rolcanlogin FROM pg_roles AS r WHERE rolname = 'app'", 'app\tt'],
  ['SELECT count(*) > 2 FROM pg_roles', '\nt\n'],
  ["SELECT * FROM (SELECT rolname FROM pg_roles) AS x WHERE rolname = 'app'", '\napp\n'],
  ['SELECT srvname FROM pg_foreign_server', '\nother\n'],
  ["SELECT rolname FROM role_names WHERE rolname = 'app'", '\napp\n'],
  ['SELECT roles() > 2', '\nt\n'],
  [
    "SELECT r.rolname FROM pg_roles r JOIN pg_namespace n ON n.nspowner = r.oid AND nspname = 'public'",
    'pg_database_owner',
  ],
  ["SELECT * FROM pg_namespace WHERE nspname = 'public'", 'public'],
  ["SELECT proname FROM pg_proc WHERE proname = 'configs'", '\nconfigs\n'],
  ['SELECT option_name FROM information_schema.foreign_server_options', '\nhost\n'],
  ["SELECT n_distinct FROM pg_stats WHERE tablename = 'nothing'", 'n_distinct'],
]

test.each(hidden)('shows no role the result of %s', async sql => {
  for (const user of ['reader', 'postgres']) {
    const { isError, text } = await run(settingsOf({ user }), sql)
    expect([isError, text]).toEqual([true, expect.stringMatching(/^Refused: .*may hold a password/s)])
  }
})

test.each(ofSuperusers)('does not show a superuser the result of %s', async sql => {
  const { isError, text } = await run(settingsOf({ user: 'postgres' }), sql)
  expect([isError, text]).toEqual([true, expect.stringMatching(/^Refused: .*may hold a password/s)])
})

test.each(shown)('shows harmless data: %s', async (sql, contains) => {
  const { isError, text } = await run(settingsOf({ user: 'postgres' }), sql)
  expect([isError, text]).toEqual([false, expect.stringContaining(contains)])
})

test('shows a role its own statements, if it sees no other statements', async () => {
  const { text } = await run(
    settingsOf({ user: 'reader' }),
    'SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()',
  )
  expect(text).toContain('pg_stat_activity WHERE')
})

test('show_secrets allows reads of secrets', async () => {
  const database = settingsOf({ user: 'postgres', showSecrets: true })
  for (const sql of ["SELECT * FROM pg_roles WHERE rolname = 'app'", 'TABLE settings_of_roles', 'SELECT configs()'])
    expect((await run(database, sql)).text).toContain('hunter2')
  expect((await run(database, 'TABLE pg_authid')).isError).toBe(false)
  expect((await run(database, 'SHOW app.jwt_secret')).text).not.toContain('Refused')
})

test('with writes allowed, refuses to create functions and views that show secrets', async () => {
  const database = settingsOf({ user: 'postgres', allowWrites: true })
  for (const sql of [
    "CREATE FUNCTION f() RETURNS SETOF text LANGUAGE sql AS 'SELECT rolconfig::text FROM pg_roles'",
    'CREATE FUNCTION f() RETURNS SETOF text LANGUAGE sql BEGIN ATOMIC SELECT rolconfig::text FROM pg_roles; END',
    'DO $$ BEGIN CREATE TABLE x AS SELECT * FROM pg_roles; END $$',
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$SELECT current_setting('app.jwt_secret')$$",
    'CREATE VIEW v AS TABLE pg_db_role_setting',
    'CREATE TABLE x AS SELECT setconfig FROM pg_db_role_setting',
    'INSERT INTO x SELECT passwd FROM pg_shadow',
  ])
    expect(await run(database, sql)).toEqual({
      isError: true,
      text: expect.stringMatching(/^Refused: .*may hold a password/s),
    })
})

test('a condition of count_rows cannot read secrets', async () => {
  const database = settingsOf({ user: 'reader' })
  const limits = { resultTokens: 10_000, resultBytes: 10_000_000, requestBytes: 10_000_000 }
  const tool = countRows({
    entries: createEntries(() => [database]),
    databases,
    catalogue: createCatalogue(databases, Date.now),
    limits,
  })
  const count = async (where: string) => {
    const outcome = await tool.call({ table: 'pg_roles', schema: 'pg_catalog', where }, callContext())
    return JSON.stringify(outcome)
  }
  expect(await count("rolname = 'app'")).toContain('Count: 1')
  for (const where of ["rolconfig::text LIKE '%h%'", "pg_roles::text LIKE '%h%'"])
    expect(await count(where)).toContain('Refused')
})
