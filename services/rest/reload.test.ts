/**
 * Reloads at run time: schema changes, configuration from file and database, role settings, and what the admin server
 * shows.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, sendRequest, until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { configurationFile, startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE authenticator LOGIN NOINHERIT; GRANT anon TO authenticator;
  CREATE SCHEMA api;
  CREATE TABLE api.numbers AS SELECT generate_series(1, 50) AS id;
  CREATE FUNCTION api.setting(name text) RETURNS text LANGUAGE sql AS $$ SELECT current_setting(name, true) $$;
  CREATE FUNCTION api.serializable() RETURNS text LANGUAGE sql SET default_transaction_isolation = 'repeatable read' AS
    $$ SELECT current_setting('transaction_isolation') $$;
  CREATE FUNCTION api.forever() RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(100)';
  CREATE FUNCTION api.hurried() RETURNS void LANGUAGE sql SET statement_timeout = '20ms' AS 'SELECT pg_sleep(100)';
  GRANT USAGE ON SCHEMA api TO anon;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;`

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('17')
})
afterAll(() => postgres?.stop())

const codeOf = ({ text }: Answer): unknown => JSON.parse(text).code
const rowsOf = ({ text }: Answer): number => JSON.parse(text).length

let databases = 0
type Fixture = { service: TestService; role: string; database: string; run: (sql: string) => Promise<unknown> }

/** Starts a service with its own database and login role, which tests can change. */
async function withService(
  own: Record<string, string | number | boolean>,
  prepare: (role: string) => string,
  work: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const name = `place_${++databases}`
  const anon = `${name}_anon`
  await postgres.run(`CREATE DATABASE ${name}`)
  await postgres.run(schema.replaceAll('authenticator', name).replaceAll('anon', anon), name)
  await postgres.run(prepare(name), name)
  const service = await startService(postgres.uri(name, name), { 'db-schemas': 'api', 'db-anon-role': anon, ...own })
  try {
    await work({ service, role: name, database: name, run: sql => postgres.run(sql, name) })
  } finally {
    await service.stop()
  }
}
const nothing = () => 'SELECT 1'

test('the service detects a schema change without NOTIFY if it watches the schema', async () => {
  await withService({ 'db-schema-watch-interval': 1 }, nothing, async ({ service, role, run }) => {
    expect(codeOf(await service.send('/late'))).toBe('RST205')
    await run(`CREATE VIEW api.late AS SELECT 1 AS a; GRANT SELECT ON api.late TO ${role}_anon`)
    await until(async () => (await service.send('/late')).text === '[{"a":1}]')
  })
})

test('the service detects a schema change after NOTIFY on the configured channel', async () => {
  await withService({ 'db-channel': 'tidings' }, nothing, async ({ service, role, run }) => {
    await run(`CREATE VIEW api.late AS SELECT 1 AS a; GRANT SELECT ON api.late TO ${role}_anon`)
    expect(codeOf(await service.send('/late'))).toBe('RST205')
    await run(`NOTIFY tidings, 'something else'`)
    await run(`NOTIFY tidings, 'reload schema'`)
    await until(async () => (await service.send('/late')).text === '[{"a":1}]')
    await run('DROP VIEW api.late; NOTIFY tidings')
    // Before the reload, the service sends the query to Postgres, and Postgres returns 42P01.
    await until(async () => codeOf(await service.send('/late')) === 'RST205')
  })
})

test('1,000 requests during reloads, without a failure', async () => {
  await withService({ 'db-pool': 4 }, nothing, async ({ service, run }) => {
    const failed: Answer[] = []
    let count = 0
    let isOver = false
    async function client(): Promise<void> {
      while (count < 1_000) {
        count++
        const answer = await service.send('/numbers?id=lte.3')
        if (answer.status !== 200 || rowsOf(answer) !== 3) failed.push(answer)
      }
    }
    async function reloader(): Promise<void> {
      for (let round = 0; !isOver; round++) {
        await run(`CREATE TABLE api.more_${round} (id int); NOTIFY pgrst`)
        await service.service.reload(round % 2 === 0 ? 'everything' : 'schema')
      }
    }
    const reloading = reloader()
    await Promise.all(Array.from({ length: 10 }, client))
    isOver = true
    await reloading
    expect(failed).toEqual([])
    expect(service.log.filter(line => line.includes('schema cache loaded')).length).toBeGreaterThan(2)
  })
})

test('an invalid file keeps the previous configuration, and a valid file replaces it', async () => {
  await withService({}, nothing, async ({ service, role }) => {
    const keys = { 'db-uri': postgres.uri(role, role), 'db-schemas': 'api', 'db-anon-role': `${role}_anon` }
    const { reload } = service.service
    for (const wrong of ['db-schemas = "unfinished', 'db-shcemas = "api"', 'db-pool = 0', 'jwt-secret = "short"']) {
      service.configure(`${configurationFile(keys)}${wrong}\n`)
      await reload()
      expect((await service.send('/numbers')).status).toBe(200)
      expect(service.log.some(line => line.includes(wrong.split(' ')[0] ?? '') || line.includes('line 4'))).toBe(true)
    }
    service.configure(configurationFile({ ...keys, 'db-max-rows': 3 }))
    await reload('schema')
    expect(rowsOf(await service.send('/numbers'))).toBe(50)
    await reload()
    expect(rowsOf(await service.send('/numbers'))).toBe(3)
  })
})

test('settings of the login role configure the service: rst.* takes precedence over pgrst.*, and both over the file', async () => {
  const prepare = (role: string) => `ALTER ROLE ${role} SET pgrst.db_max_rows = '4'`
  await withService({ 'db-max-rows': 9 }, prepare, async ({ service, role, run }) => {
    expect(rowsOf(await service.send('/numbers'))).toBe(4)
    await run(`ALTER ROLE ${role} SET rst.db_max_rows = '5'; NOTIFY pgrst, 'reload config'`)
    await until(async () => rowsOf(await service.send('/numbers')) === 5)
    // The service logs the error and keeps its configuration.
    await run(`ALTER ROLE ${role} SET rst.db_max_rows = 'many'`)
    await service.service.reload()
    expect(rowsOf(await service.send('/numbers'))).toBe(5)
    expect(service.log.some(line => /db-max-rows \(database, .*must be a whole number/.test(line))).toBe(true)
    await run(`ALTER ROLE ${role} RESET ALL`)
    await service.service.reload()
    expect(rowsOf(await service.send('/numbers'))).toBe(9)
  })
})

test('the service reports a secret in the settings of the role or the database, by name only', async () => {
  const value = 'a secret of more than thirty-two characters'
  const prepare = (role: string) => `ALTER ROLE ${role} SET pgrst.jwt_secret = '${value}'`
  await withService({ 'db-config': false }, prepare, async ({ service, role, run }) => {
    const reports = () => service.log.filter(line => line.includes('every role can read these settings'))
    await until(async () => reports().length === 1)
    expect(reports()[0]).toContain('pgrst.jwt_secret')
    await service.service.reload()
    expect(reports()).toHaveLength(1)
    await run(`ALTER ROLE ${role} RESET ALL; ALTER ROLE ${role} SET app.settings.jwt_secret = '${value}'`)
    await service.service.reload()
    expect(reports()[1]).toContain('app.settings.jwt_secret')
    expect(service.log.join()).not.toContain(value)
  })
})

test('db-pre-config sets keys; with db-config = false, the database sets no keys', async () => {
  const prepare = (role: string) => `
    CREATE SCHEMA settings; GRANT USAGE ON SCHEMA settings TO ${role};
    CREATE FUNCTION settings.load() RETURNS void LANGUAGE sql AS $$ SELECT set_config('pgrst.db_max_rows', '6', true) $$;
    ALTER ROLE ${role} SET pgrst.db_max_rows = '4'`
  const pre = { 'db-pre-config': 'settings.load' }
  await withService(pre, prepare, async ({ service }) => expect(rowsOf(await service.send('/numbers'))).toBe(6))
  const off = { ...pre, 'db-config': false }
  await withService(off, prepare, async ({ service }) => expect(rowsOf(await service.send('/numbers'))).toBe(50))
})

test('role settings apply to its requests: timeout, isolation level, custom settings', async () => {
  const prepare = (role: string) => `
    ALTER ROLE ${role}_anon SET statement_timeout = '50ms';
    ALTER ROLE ${role}_anon SET default_transaction_isolation = 'serializable';
    ALTER ROLE ${role}_anon SET my.own = 'x'`
  await withService({}, prepare, async ({ service, role, run }) => {
    const setting = async (name: string, method = 'GET') =>
      (await service.send(`/rpc/setting?name=${name}`, { method })).text
    expect(await setting('statement_timeout')).toBe('"50ms"')
    expect(await setting('transaction_isolation')).toBe('"serializable"')
    expect(await setting('my.own')).toBe('"x"')
    const late = await service.send('/rpc/forever', { method: 'POST' })
    expect([late.status, codeOf(late)]).toEqual([500, '57014'])
    expect((await service.send('/rpc/serializable')).text).toBe('"repeatable read"')
    await run(`ALTER ROLE ${role}_anon RESET ALL`)
    await service.service.reload()
    expect(await setting('statement_timeout')).toBe('"0"')
    expect(await setting('transaction_isolation')).toBe('"read committed"')
    // A function's settings apply only to its call.
    expect(codeOf(await service.send('/rpc/hurried', { method: 'POST' }))).toBe('57014')
    expect(await setting('statement_timeout')).toBe('"0"')
  })
})

test('the admin server: live, ready, metrics, and the configuration without its secrets', async () => {
  const secrets = { 'jwt-secret': 'never to be shown: a long passphrase', 'app.settings.key': 'hidden-setting' }
  const name = `place_${++databases}`
  await postgres.run(`CREATE ROLE ${name} LOGIN`)
  const uri = postgres.uri(name).replace('@', ':hidden-password@')
  const service = await startService(uri, {
    ...secrets,
    'db-anon-role': name,
    'server-timing-enabled': true,
    'admin-server-config-enabled': true,
  })
  try {
    const admin = (path: string, method = 'GET') => sendRequest(service.adminPort, path, { method })
    expect([(await admin('/live')).status, (await admin('/ready')).status]).toEqual([200, 200])
    expect([(await admin('/')).status, (await admin('/live', 'POST')).status]).toEqual([404, 405])
    const { text: configuration } = await admin('/config')
    expect(configuration).toContain('server-timing-enabled = true')
    expect(configuration).toContain(`@127.0.0.1:${postgres.port}`)
    await service.send('/nothing', { headers: { Authorization: 'Bearer not.a.token' } })
    await service.send('/nothing')
    const { text: metrics, headers } = await admin('/metrics')
    expect(headers['content-type']).toContain('text/plain; version=0.0.4')
    expect(metrics).toContain('rst_requests_total{method="GET",status="401"} 1')
    expect(metrics).toContain('rst_requests_total{method="GET",status="404"} 1')
    expect(metrics).toMatch(/^rst_schema_cache_loads_total\{status="success"\} 1$/m)
    for (const text of [configuration, metrics, service.log.join('')]) {
      expect(text).not.toMatch(/never to be shown|hidden-setting|hidden-password|not\.a\.token/)
    }
  } finally {
    await service.stop()
  }
})

test("only the login role's settings configure the service: settings of the database do not, because the database's owner is not the operator", async () => {
  const prepare = (role: string) => `
    DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET pgrst.db_max_rows = 2', current_database()); END $$;
    CREATE SCHEMA settings; GRANT USAGE ON SCHEMA settings TO ${role};
    CREATE FUNCTION settings.load() RETURNS void LANGUAGE sql AS $$ SELECT set_config('pgrst.db_plan_enabled', 'true', true) $$`
  await withService({}, prepare, async ({ service }) => expect(rowsOf(await service.send('/numbers'))).toBe(50))
  const pre = { 'db-pre-config': 'settings.load' }
  await withService(pre, prepare, async ({ service }) => expect(rowsOf(await service.send('/numbers'))).toBe(50))
})
