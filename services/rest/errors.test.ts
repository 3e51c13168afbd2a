/** Every error code of the service and of Postgres, raised over HTTP: status, code, body and headers. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, type TestRequest, until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE member; GRANT anon, member TO authenticator;
  CREATE ROLE retired LOGIN NOINHERIT; GRANT anon TO retired;
  CREATE SCHEMA api; CREATE SCHEMA other;
  CREATE TABLE api.authors (id int PRIMARY KEY, name text UNIQUE);
  CREATE TABLE api.books (id int PRIMARY KEY, title text, author int REFERENCES api.authors, editor int REFERENCES api.authors);
  CREATE TABLE api.pages (id int PRIMARY KEY, book int REFERENCES api.books);
  CREATE TABLE api.secrets (id int PRIMARY KEY);
  INSERT INTO api.authors VALUES (1, 'Ada'), (2, 'Grace');
  INSERT INTO api.books VALUES (1, 'Notes', 1, 2);
  INSERT INTO api.pages VALUES (1, 1);
  CREATE FUNCTION api.fail(state text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = 'it failed', DETAIL = 'on purpose', HINT = 'do not'; END $$;
  CREATE FUNCTION api.say(state text, message text, detail text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail; END $$;
  CREATE FUNCTION api.write() RETURNS void LANGUAGE sql AS $$ INSERT INTO api.pages VALUES (9, 1) $$;
  CREATE FUNCTION api.no_such_function() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN missing_function(); END $$;
  CREATE FUNCTION api.no_such_table() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT 1 FROM missing_table); END $$;
  CREATE FUNCTION api.bad_headers() RETURNS text LANGUAGE sql AS $$ SELECT set_config('response.headers', '{"a": 1}', true) $$;
  CREATE FUNCTION api.bad_status() RETURNS text LANGUAGE sql AS $$ SELECT set_config('response.status', 'many', true) $$;
  CREATE FUNCTION api.same(a int) RETURNS int LANGUAGE sql AS 'SELECT a';
  CREATE FUNCTION api.same(a text) RETURNS text LANGUAGE sql AS 'SELECT a';
  CREATE FUNCTION api.wait() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(1)';
  CREATE FUNCTION api.one() RETURNS int LANGUAGE sql AS 'SELECT 1';
  GRANT USAGE ON SCHEMA api, other TO anon, member;
  GRANT ALL ON api.authors, api.books, api.pages TO anon, member;`

let postgres: TestPostgres
let now: () => number = Date.now
/**
 * Three configurations: every key is set; few keys are set, with one connection and short errors; no anonymous role.
 */
let full: TestService
let bare: TestService
let closed: TestService

beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  const keys = {
    'db-schemas': 'api, other',
    'db-anon-role': 'anon',
    'jwt-secret': jwtSecret,
    'db-channel-enabled': false,
  }
  const uri = postgres.uri('authenticator')
  full = await startService(uri, keys, { now: () => now() })
  bare = await startService(uri, {
    ...keys,
    'jwt-secret': '',
    'db-aggregates-enabled': true,
    'openapi-mode': 'disabled',
    'client-error-verbosity': 'minimal',
    'db-pool': 1,
    'db-pool-acquisition-timeout': 1,
  })
  closed = await startService(uri, { ...keys, 'db-anon-role': '' })
})
afterAll(async () => {
  await Promise.all([full?.stop(), bare?.stop(), closed?.stop()])
  await postgres?.stop()
})

type Body = { code: string; message: string; details: unknown; hint: unknown }
const bodyOf = ({ text }: Answer): Body => JSON.parse(text) // expectError checks this shape.

/** Properties of all errors. */
function expectError(
  answer: Answer,
  status: number,
  code: string,
  keys = ['code', 'details', 'hint', 'message'],
): Body {
  const body = bodyOf(answer)
  expect({ status: answer.status, code: body.code }).toEqual({ status, code })
  expect(Object.keys(body).sort()).toEqual(keys)
  expect(body.message).not.toBe('')
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(answer.headers['proxy-status']).toBe(`espalier-rest; error=${code}`)
  expect(answer.headers['content-length']).toBe(String(Buffer.byteLength(answer.text)))
  expect(answer.headers['www-authenticate'] === undefined).toBe(status !== 401)
  expect(answer.headers['retry-after']).toBe(status === 503 ? '1' : undefined)
  return body
}

const json = (value: unknown, method = 'POST', headers: Record<string, string> = {}): TestRequest => ({
  method,
  headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify(value),
})
const bearer = (token: string): TestRequest => ({ headers: { Authorization: `Bearer ${token}` } })

test.each([
  ['08000', 503],
  ['08006', 503],
  ['09000', 500],
  ['0L000', 403],
  ['0P000', 403],
  ['0LP01', 403],
  ['23503', 409],
  ['23505', 409],
  ['23514', 400],
  ['25006', 405],
  ['25000', 500],
  ['25P02', 500],
  ['28000', 403],
  ['28P01', 403],
  ['2D000', 500],
  ['38000', 500],
  ['39000', 500],
  ['3B000', 500],
  ['40000', 500],
  ['40001', 500],
  ['53400', 500],
  ['53000', 503],
  ['53300', 503],
  ['54000', 500],
  ['55000', 500],
  ['57000', 500],
  ['57014', 500],
  ['58000', 500],
  ['F0000', 500],
  ['HV000', 500],
  ['XX000', 500],
  ['P0001', 400],
  ['P0000', 500],
  ['P0002', 500],
  ['42883', 404],
  ['42P01', 404],
  ['42P17', 500],
  ['42501', 400],
  ['42703', 400],
  ['22012', 400],
  ['PT401', 401],
  ['PT402', 402],
  ['PT503', 503],
  // Interim responses before the final one.
  ['PT100', 500],
  ['PT199', 500],
])('SQLSTATE %s raised by a function is %i', async (state, status) => {
  const body = expectError(await full.send('/rpc/fail', json({ state })), status, state)
  expect(body).toEqual({ code: state, message: 'it failed', details: 'on purpose', hint: 'do not' })
})

test('a head above 64 KiB has a normal error response', async () => {
  expect((await full.send('/authors', { headers: { 'x-long': 'x'.repeat(65_000) } })).status).toBe(200)
  const answer = await full.send('/authors', { headers: { 'x-long': 'x'.repeat(66_000) } })
  expectError(answer, 431, 'RST140')
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
})

test('42501 is 403 with a token, and 400 without a token', async () => {
  expectError(await full.send('/secrets'), 400, '42501')
  const before = await full.metric('rst_jwt_cache_requests_total')
  expectError(await full.send('/secrets', bearer(await tokenOf({ role: 'member' }))), 403, '42501')
  expect(await full.metric('rst_jwt_cache_requests_total')).toBe(before + 1)
})

test('errors that Postgres itself raises', async () => {
  expectError(await full.send('/authors', json({ id: 1 })), 409, '23505')
  expectError(await full.send('/books', json({ id: 7, author: 70 })), 409, '23503')
  expectError(await full.send('/rpc/write'), 405, '25006')
  expectError(await full.send('/rpc/no_such_function', json({})), 404, '42883')
  expectError(await full.send('/rpc/no_such_table', json({})), 404, '42P01')
  expectError(await full.send('/authors?id=eq.x'), 400, '22P02')
  expectError(await full.send('/authors?nothing=eq.1'), 400, '42703')
  expectError(await full.send('/authors', bearer(await tokenOf({ role: 'nobody_known' }))), 401, '22023')
})

const raise = (service: TestService, state: string, message: string, detail: string) =>
  service.send('/rpc/say', json({ state, message, detail }))

test.each(['RST00', 'PGRST'])('%s with JSON decides the full response', async state => {
  const message = JSON.stringify({ code: 'X1', message: 'chosen', details: 'd', hint: 'h' })
  const detail = JSON.stringify({ status: 418, status_text: 'Short and stout', headers: { 'X-Pot': 'tea' } })
  const answer = await raise(full, state, message, detail)
  expect(answer.status).toBe(418)
  expect(answer.statusText).toBe('Short and stout')
  expect(answer.headers['x-pot']).toBe('tea')
  expect(answer.headers['proxy-status']).toBe('espalier-rest; error=X1')
  expect(bodyOf(answer)).toEqual({ code: 'X1', message: 'chosen', details: 'd', hint: 'h' })
})

/** Error codes that the tests have raised. */
const raised = new Set<string>()

type Own = {
  code: string
  status: number
  send: () => Promise<Answer>
  /** Other members of the body that the test checks. */
  expected?: Partial<Body>
  challenge?: string
}
const refusedToken = (description: string) => `Bearer error="invalid_token", error_description="${description}"`
const put = (body: unknown) => json(body, 'PUT')

const own: Own[] = [
  {
    code: 'RST100',
    status: 400,
    send: () => full.send('/authors?id=nonsense.1'),
    expected: { message: expect.stringMatching(/line 1, column \d+/) },
  },
  { code: 'RST101', status: 405, send: () => full.send('/rpc/one', { method: 'DELETE' }) },
  { code: 'RST102', status: 400, send: () => full.send('/authors', json(undefined)) },
  { code: 'RST102', status: 400, send: () => full.send('/authors', { ...json(''), body: '{"id":' }) },
  // In a list of records, this test checks only the keys. Postgres rejects other values.
  { code: 'RST102', status: 400, send: () => full.send('/authors', { ...json(''), body: '[{"id":tru},{"id":2}]' }) },
  { code: 'RST103', status: 416, send: () => full.send('/authors', { headers: { Range: '5-2' } }) },
  { code: 'RST103', status: 416, send: () => full.send('/authors?limit=-1') },
  {
    code: 'RST103',
    status: 416,
    send: () => full.send('/authors?offset=50', { headers: { Prefer: 'count=exact' } }),
    expected: { details: 'An offset of 50 was requested, but there are only 2 rows.' },
  },
  { code: 'RST105', status: 405, send: () => full.send('/authors?name=eq.Ada', put({ id: 1, name: 'Ada' })) },
  {
    code: 'RST106',
    status: 406,
    send: () => full.send('/authors', { headers: { 'Accept-Profile': 'hidden' } }),
    expected: { message: 'Invalid schema: hidden', hint: 'Only the following schemas are exposed: api, other' },
  },
  { code: 'RST107', status: 415, send: () => full.send('/authors', json({}, 'POST', { 'Content-Type': 'image/png' })) },
  { code: 'RST107', status: 406, send: () => full.send('/authors', { headers: { Accept: 'image/png' } }) },
  { code: 'RST108', status: 400, send: () => full.send('/authors?books.id=eq.1') },
  { code: 'RST111', status: 500, send: () => full.send('/rpc/bad_headers', json({})) },
  { code: 'RST112', status: 500, send: () => full.send('/rpc/bad_status', json({})) },
  { code: 'RST114', status: 400, send: () => full.send('/authors?id=eq.1&limit=1', put({ id: 1, name: 'Ada' })) },
  { code: 'RST115', status: 400, send: () => full.send('/authors?id=eq.1', put({ id: 2, name: 'Ada' })) },
  {
    code: 'RST116',
    status: 406,
    send: () => full.send('/authors', { headers: { Accept: 'application/vnd.pgrst.object+json' } }),
    expected: { details: 'The result contains 2 rows' },
  },
  { code: 'RST117', status: 405, send: () => full.send('/authors', { method: 'PROPFIND' }) },
  { code: 'RST118', status: 400, send: () => full.send('/books?select=id,pages(id)&order=pages(id)') },
  { code: 'RST120', status: 400, send: () => full.send('/books?select=id,pages(id)&pages=eq.1') },
  { code: 'RST121', status: 500, send: () => raise(full, 'RST00', 'no JSON', '{}') },
  { code: 'RST121', status: 500, send: () => raise(full, 'PGRST', '{"code":"a","message":"b"}', '{"status":"x"}') },
  {
    code: 'RST122',
    status: 400,
    send: () => full.send('/authors', { headers: { Prefer: 'handling=strict, surprise=me' } }),
    expected: { details: 'Invalid preferences: surprise=me' },
  },
  { code: 'RST123', status: 400, send: () => full.send('/authors?select=id.sum()') },
  {
    code: 'RST124',
    status: 400,
    send: () => full.send('/pages', { method: 'DELETE', headers: { Prefer: 'handling=strict, max-affected=0' } }),
    expected: { details: 'The query affects 1 rows' },
  },
  { code: 'RST125', status: 404, send: () => full.send('/authors/1/books') },
  {
    code: 'RST128',
    status: 400,
    send: () => full.send('/rpc/one', json({}, 'POST', { Prefer: 'handling=strict, max-affected=1' })),
  },
  { code: 'RST200', status: 400, send: () => full.send('/authors?select=id,pages(id)') },
  {
    code: 'RST201',
    status: 300,
    send: () => full.send('/books?select=id,authors(id)'),
    expected: { details: [expect.objectContaining({ cardinality: 'many-to-one' }), expect.anything()] },
  },
  { code: 'RST202', status: 404, send: () => full.send('/rpc/fial') },
  { code: 'RST203', status: 300, send: () => full.send('/rpc/same?a=1') },
  { code: 'RST204', status: 400, send: () => full.send('/authors?columns=id,nothing', json({ id: 3 })) },
  {
    code: 'RST205',
    status: 404,
    send: () => full.send('/author'),
    expected: { hint: "Perhaps you meant the table 'api.authors'" },
  },
  {
    code: 'RST301',
    status: 401,
    send: () => full.send('/authors', bearer('a.b')),
    challenge: refusedToken('Expected 3 parts in JWT; got 2'),
  },
  { code: 'RST302', status: 401, send: () => closed.send('/authors'), challenge: 'Bearer' },
  {
    code: 'RST303',
    status: 401,
    send: async () => full.send('/authors', bearer(await tokenOf({ role: 'member', exp: 1 }))),
    challenge: refusedToken('JWT expired'),
  },
]

test.each(own)('$code ($status)', async ({ code, status, send, expected = {}, challenge }) => {
  const answer = await send()
  expect(expectError(answer, status, code)).toMatchObject(expected)
  expect(answer.headers['www-authenticate']).toBe(challenge)
  raised.add(code)
})

test('no refused request has changed a row', async () => {
  expect((await full.send('/authors?order=id')).text).toBe('[{"id":1,"name":"Ada"}, \n {"id":2,"name":"Grace"}]')
  expect((await full.send('/pages')).text).toBe('[{"id":1,"book":1}]')
})

test('minimal verbosity omits details and hint (RST126, RST127, RST300)', async () => {
  const token = bearer(await tokenOf({ role: 'member' }))
  expectError(await bare.send('/'), 404, 'RST126', ['code', 'message'])
  expectError(await bare.send('/books?select=id,...pages(id.sum())'), 400, 'RST127', ['code', 'message'])
  expectError(await bare.send('/authors', token), 500, 'RST300', ['code', 'message'])
  expectError(await bare.send('/rpc/fail', json({ state: 'P0001' })), 400, 'P0001', ['code', 'message'])
  expect(bodyOf(await bare.send('/rpc/fail', json({ state: 'P0001' })))).toEqual({
    code: 'P0001',
    message: 'it failed',
  })
  raised.add('RST126').add('RST127').add('RST300')
})

test("minimal verbosity also omits the database's address", async () => {
  const keys = { 'db-anon-role': 'anon', 'client-error-verbosity': 'minimal', 'db-channel-enabled': false }
  const away = await startService('postgresql://nobody@127.0.0.1:1/nothing', keys, { unready: true })
  try {
    expectError(await away.send('/authors'), 503, 'RST002', ['code', 'message'])
  } finally {
    await away.stop()
  }
})

test('an error of HEAD has its headers and no body', async () => {
  const answer = await full.send('/author', { method: 'HEAD' })
  expect([answer.status, answer.text, answer.headers['proxy-status']]).toEqual([404, '', 'espalier-rest; error=RST205'])
})

test('RST003 (504): the one connection stays busy', async () => {
  const blocker = new pg.Client(postgres.uri('postgres'))
  await blocker.connect()
  await blocker.query('SELECT pg_advisory_lock(1)')
  const slow = bare.send('/rpc/wait', json({}))
  try {
    const isTaken = async () => (await bare.metric('rst_db_pool_available')) === 0
    await until(async () => (await bare.metric('rst_db_pool_open')) === 1 && (await isTaken()))
    expectError(await bare.send('/authors'), 504, 'RST003', ['code', 'message'])
    expect(await bare.metric('rst_db_pool_timeouts_total')).toBe(1)
  } finally {
    await blocker.end()
  }
  expect((await slow).status).toBe(204)
  expect((await bare.send('/authors')).status).toBe(200)
  raised.add('RST003')
})

test('RSTX00 (500) hides unexpected errors, and the log contains them', async () => {
  const token = bearer(await tokenOf({ role: 'member' }))
  now = () => {
    throw new Error('the clock of host-17 is broken')
  }
  try {
    const answer = await full.send('/authors', token)
    expectError(answer, 500, 'RSTX00')
    expect(answer.text).not.toContain('host-17')
    expect(full.log.at(-1)).toContain('host-17')
    raised.add('RSTX00')
  } finally {
    now = Date.now
  }
})

test('RST001 (503): the login role is no longer allowed to log in', async () => {
  const service = await startService(postgres.uri('retired'), {
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-channel-enabled': false,
  })
  try {
    await postgres.run('ALTER ROLE retired NOLOGIN')
    expectError(await service.send('/authors'), 503, 'RST001')
    raised.add('RST001')
  } finally {
    await service.stop()
  }
})

test('RST002 (503): the service has not read the database yet', async () => {
  const uri = postgres.uri('nobody_at_all')
  const service = await startService(uri, { 'db-anon-role': 'anon' }, { unready: true })
  try {
    const isReported = (line: string) => line.includes('could not read the database') && line.includes('nobody_at_all')
    await until(async () => service.log.some(isReported))
    // The client is unauthenticated, so the response contains neither the role nor the host. The log contains both.
    expect(expectError(await service.send('/authors'), 503, 'RST002').details).toBeNull()
    raised.add('RST002')
  } finally {
    await service.stop()
  }
})

test('RST002 (503): a schema does not exist, and the log names the configuration key', async () => {
  const keys = { 'db-schemas': 'api, nothing', 'db-anon-role': 'anon', 'db-channel-enabled': false }
  const service = await startService(postgres.uri('authenticator'), keys, { unready: true })
  try {
    await until(() =>
      service.log.some(line => JSON.parse(line).reason === 'db-schemas: the database has no schema "nothing"'),
    )
    expectError(await service.send('/authors'), 503, 'RST002')
  } finally {
    await service.stop()
  }
})

test('RST000 (503): the database is down', async () => {
  expect((await full.send('/authors')).status).toBe(200)
  await postgres.crash()
  await until(async () => (await full.metric('rst_db_pool_open')) === 0)
  const { message, details } = expectError(await full.send('/authors'), 503, 'RST000')
  expect(message).toBe('Database connection error.')
  expect(details).toContain('ECONNREFUSED')
  raised.add('RST000')
})

test('every code of the service has been raised', () => {
  const group = (prefix: string, ids: string) => ids.split(' ').map(id => prefix + id)
  const codes = [
    ...group('RST0', '00 01 02 03'),
    ...group('RST1', '00 01 02 03 05 06 07 08 11 12 14 15 16 17 18 20 21 22 23 24 25 26 27 28'),
    ...group('RST2', '00 01 02 03 04 05'),
    ...group('RST3', '00 01 02 03'),
    'RSTX00',
  ]
  expect([...raised].sort()).toEqual(codes)
})
