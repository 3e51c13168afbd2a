/** Changes of PostgREST 16 that a configuration key enables. The texts are copied from PostgREST's source. */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendRequest as askPort, until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { loadConfiguration } from './configuration/index.ts'
import { startRest } from './index.ts'
import { probeReadiness } from './readiness.ts'
import { configurationFile, jwtSecret, startService, type TestService, tokenOf } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE member; GRANT anon, member TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon, member;
  CREATE TABLE api.authors (id int PRIMARY KEY, name text);
  CREATE TABLE api.books (id int PRIMARY KEY, author_id int REFERENCES api.authors, printed timestamptz);
  CREATE FUNCTION api.me() RETURNS text STABLE LANGUAGE sql AS 'SELECT current_user::text';
  INSERT INTO api.authors VALUES (1, 'Ada'); INSERT INTO api.books VALUES (1, 1, '2026-01-01 00:00Z');
  GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA api TO anon;`

const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-pool': 1, 'jwt-secret': jwtSecret }
let postgres: TestPostgres
let plain: TestService
let newer: TestService
let strict: TestService
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  const uri = postgres.uri('authenticator')
  plain = await startService(uri, keys)
  newer = await startService(uri, {
    ...keys,
    'db-timezone-unchecked': true,
    'url-use-legacy-target-names': true,
    'jwt-role-claim-key': "$$.roles[?@ == 'member']",
  })
  strict = await startService(uri, { ...keys, 'url-use-legacy-target-names': false })
})
afterAll(async () => {
  await Promise.all([plain?.stop(), newer?.stop(), strict?.stop()])
  await postgres?.stop()
})

const printed = (service: TestService, prefer: string) => service.send('/books?select=printed', { headers: { prefer } })

test('a time zone can be an offset, and an invalid time zone is an error of Postgres', async () => {
  const { text, headers } = await printed(newer, 'timezone=-07:00')
  expect([text, headers['preference-applied']]).toEqual([
    '[{"printed":"2026-01-01T07:00:00+07:00"}]',
    'timezone=-07:00',
  ])
  const wrong = await printed(newer, 'timezone=Jupiter/Red_Spot')
  expect([wrong.status, JSON.parse(wrong.text)]).toMatchObject([
    400,
    { code: '22023', message: 'invalid value for parameter "TimeZone": "Jupiter/Red_Spot"' },
  ])
  // The connection keeps no setting.
  expect((await printed(newer, 'timezone=UTC')).text).toBe('[{"printed":"2026-01-01T00:00:00+00:00"}]')
  expect((await printed(plain, 'timezone=Jupiter/Red_Spot')).status).toBe(200)
})

test("the service finds a token's role by a path of RFC 9535", async () => {
  const headers = { Authorization: `Bearer ${await tokenOf({ roles: ['other', 'member'] })}` }
  expect((await newer.send('/rpc/me', { headers })).text).toBe('"member"')
})

const aliased = '/books?select=id,a:authors(name)'
const warning =
  '299 espalier-rest "Embedded resource was referenced by relation name even though it has an alias. This is deprecated and will stop working in a future release. Update `authors` to `a` in query string filters, orders or limits."'

test.each([
  ['GET', `${aliased}&authors.name=eq.Ada`, ''],
  ['GET', `${aliased}&authors.limit=1`, ''],
  ['PATCH', `${aliased}&id=eq.1&authors.name=eq.Ada`, 'return=representation'],
  ['PATCH', `${aliased}&id=eq.1&authors.name=eq.Ada`, ''],
])("a request uses a relation's name instead of its alias: %s %s %s", async (method, path, prefer) => {
  const body = method === 'PATCH' ? { body: '{"author_id":1}' } : {}
  const readStatus = (service: TestService, at = path) =>
    service.send(at, { method, headers: { prefer, 'Content-Type': 'application/json' }, ...body })
  const [before, warned, refused] = await Promise.all([readStatus(plain), readStatus(newer), readStatus(strict)])
  expect([before.status, before.headers.warning]).toEqual([warned.status, undefined])
  expect([warned.text, warned.headers.warning]).toEqual([before.text, warning])
  expect([refused.status, JSON.parse(refused.text)]).toEqual([
    400,
    {
      code: 'RST108',
      message: "'authors' is not an embedded resource in this request",
      details: 'Target names are not allowed in filters if they have an alias',
      hint: "Change 'authors' to 'a' in filters, orders or limits.",
    },
  ])
  for (const service of [newer, strict]) {
    const byAlias = await readStatus(service, path.replace('&authors.', '&a.'))
    expect([byAlias.status, byAlias.headers.warning]).toEqual([before.status, undefined])
  }
})

test('the admin server listens on a socket, and a reload applies log-level', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-rest-admin-'))
  const socketPath = join(directory, 'admin')
  const file = (level: string) =>
    configurationFile({
      ...keys,
      'db-uri': postgres.uri('authenticator'),
      'server-host': '127.0.0.1',
      'server-port': 0,
      'admin-server-unix-socket': socketPath,
      'admin-server-unix-socket-mode': '600',
      'log-level': level,
    })
  let text = file('error')
  const levels: string[] = []
  const service = await startRest({
    sources: () => ({ file: text, environment: {}, readFile: name => `no file ${name}` }),
    logger: pino({ level: 'silent' }),
    onLogLevel: level => levels.push(level),
  })
  try {
    await until(service.isReady)
    expect((await askPort(0, '/ready', { socketPath })).status).toBe(200)
    expect(statSync(socketPath).mode & 0o777).toBe(0o600)
    text = file('info')
    await service.reload()
    expect(levels).toEqual(['error', 'info'])
    const probed = await probeReadiness(loadConfiguration({ file: text, environment: {}, readFile: () => '' }))
    expect(probed).toEqual({ isReady: true, text: `ready: ${socketPath}` })
  } finally {
    await service.stop()
    rmSync(directory, { recursive: true })
  }
})

const probe = (own: Record<string, string | number>) =>
  probeReadiness(loadConfiguration({ file: configurationFile(own), environment: {}, readFile: () => '' }))

test('the probe requests one address of a service that has several', async () => {
  const port = plain.adminPort
  for (const host of ['127.0.0.1', '!4', '*', 'localhost']) {
    const shown = host === 'localhost' ? host : '127.0.0.1'
    const text = `ready: http://${shown}:${port}/ready`
    expect(await probe({ 'server-host': host, 'server-port': plain.port, 'admin-server-port': port })).toEqual({
      isReady: true,
      text,
    })
  }
})

test('the probe fails for a service that is not ready, not running, or without an admin server', async () => {
  const away = await startService(
    'postgresql://nobody@127.0.0.1:1/none',
    { ...keys, 'db-channel-enabled': false },
    { unready: true },
  )
  const own = { 'server-host': '127.0.0.1', 'admin-server-port': away.adminPort }
  const at = `http://127.0.0.1:${away.adminPort}/ready`
  try {
    expect(await probe(own)).toEqual({ isReady: false, text: `not ready: ${at} answers 503` })
    expect((await askPort(away.adminPort, '/schema_cache')).status).toBe(503)
  } finally {
    await away.stop()
  }
  expect(await probe(own)).toEqual({ isReady: false, text: `not ready: ${at} cannot be reached (ECONNREFUSED)` })
  expect((await probe({})).text).toMatch(/no admin server/)
  expect((await probe({ 'admin-server-port': 0 })).text).toMatch(/admin-server-port is 0/)
})

test('the admin server shows the schema cache', async () => {
  const answer = await askPort(plain.adminPort, '/schema_cache')
  expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json; charset=utf-8'])
  const cache = JSON.parse(answer.text)
  expect(Object.keys(cache)).toEqual([
    'schemas',
    'tables',
    'relationships',
    'routines',
    'computedColumns',
    'representations',
    'mediaHandlers',
    'timeZones',
  ])
  expect(cache.tables.api.books).toMatchObject({
    name: 'books',
    primaryKey: ['id'],
    columns: { author_id: { type: 'integer' } },
  })
  expect(cache.relationships.api.books[0]).toMatchObject({
    target: { schema: 'api', name: 'authors' },
    cardinality: { kind: 'many-to-one', columns: [['author_id', 'id']] },
  })
  expect(cache.routines.api.me[0]).toMatchObject({ name: 'me', volatility: 'stable' })
  expect(cache.timeZones).toContain('Europe/Paris')
})

test('two services share a port if both enable it, each with its own admin server', async () => {
  const both = { ...keys, 'server-reuseport': true }
  const first = await startService(postgres.uri('authenticator'), both)
  const shared = { ...both, 'server-port': first.port }
  try {
    const second = await startService(postgres.uri('authenticator'), shared)
    const answered = () => Promise.all([first, second].map(({ metric }) => metric('rst_requests_total')))
    // The kernel selects a service by the client's address. With enough requests, both services receive some.
    await until(async () => {
      expect((await askPort(first.port, '/books?select=id', {}, new Agent())).text).toBe('[{"id":1}]')
      return (await answered()).every(count => count > 0)
    })
    await second.stop()
    const plainly = { ...keys, 'server-port': first.port }
    await expect(startService(postgres.uri('authenticator'), plainly)).rejects.toMatchObject({ code: 'EADDRINUSE' })
    expect((await askPort(first.port, '/books?select=id', {}, new Agent())).text).toBe('[{"id":1}]')
  } finally {
    await first.stop()
  }
})
