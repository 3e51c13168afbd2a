/**
 * Several requests in one transaction, on a real Postgres. Each request gets the same response as on its own, and all
 * requests are committed, or none.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../testing/client.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from '../testing/service.ts'
import { elementsOf, membersOf } from './slices.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE clerk; CREATE SCHEMA api; CREATE SCHEMA archive; GRANT USAGE ON SCHEMA api, archive TO anon, clerk;
  CREATE TABLE api.accounts (id int PRIMARY KEY, owner text NOT NULL, amount numeric CHECK (amount >= 0), facts json);
  CREATE TABLE api.log (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int REFERENCES api.accounts DEFERRABLE INITIALLY DEFERRED, note text);
  CREATE TABLE archive.accounts (id int PRIMARY KEY);
  CREATE TABLE api.picture (id int PRIMARY KEY, bytes bytea);
  CREATE FUNCTION api.session() RETURNS json LANGUAGE sql STABLE AS $$ SELECT json_build_object('role', current_user, 'method', current_setting('request.method'),
    'path', current_setting('request.path'), 'zone', current_setting('timezone'), 'read_only', current_setting('transaction_read_only'),
    'level', current_setting('transaction_isolation'), 'headers', current_setting('request.headers')::json, 'left', current_setting('my.left', true)) $$;
  CREATE FUNCTION api.leave() RETURNS void LANGUAGE sql AS $$ SELECT set_config('my.left', 'here', true), set_config('response.headers', '[{"X-Own": "1"}]', true) $$;
  CREATE FUNCTION api.sly() RETURNS void LANGUAGE plpgsql STABLE AS $$ BEGIN EXECUTE 'DELETE FROM api.log'; END $$;
  CREATE FUNCTION api.sly_write() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DELETE FROM api.log'; END $$;
  CREATE FUNCTION api.strict() RETURNS text LANGUAGE sql STABLE SET default_transaction_isolation = 'serializable' AS $$ SELECT current_setting('transaction_isolation') $$;
  CREATE FUNCTION api.upper_of(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)';
  CREATE FUNCTION api.check_path() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('request.path') = '/log' AND current_setting('request.method') = 'DELETE' THEN RAISE SQLSTATE 'PT403' USING MESSAGE = 'never'; END IF; END $$;
  CREATE FUNCTION api.text_of(bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT repeat('x', bytes) $$;
  ALTER ROLE clerk SET log_min_duration_statement = '61s';
  GRANT ALL ON api.accounts, api.log, api.picture TO anon, clerk; GRANT SELECT ON archive.accounts TO clerk;`
const content = `TRUNCATE api.accounts, api.log, api.picture RESTART IDENTITY;
  INSERT INTO api.accounts VALUES (1, 'Ada', 10), (2, 'Grace', 0); INSERT INTO api.picture VALUES (1, '\\xff00');`

let postgres: TestPostgres
let service: TestService
const keys = {
  'db-schemas': 'api, archive',
  'db-anon-role': 'anon',
  'jwt-secret': jwtSecret,
  'db-tx-end': 'commit-allow-override',
  'db-pre-request': 'api.check_path',
  'batch-path': '/batch',
  'batch-max-requests': 5,
  'role-limits': 'clerk rows=3 cost=100000',
}

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('postgres'), keys)
})
beforeEach(async () => {
  await postgres.run(content)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

type Entry = { method: string; path: string; headers?: Record<string, string>; body?: unknown }
const send = (entries: readonly unknown[] | string, headers: Record<string, string> = {}) =>
  service.send('/batch', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof entries === 'string' ? entries : JSON.stringify(entries),
  })
const amounts = async () =>
  (await postgres.run('SELECT amount::int FROM api.accounts ORDER BY id')).rows.map(row => row.amount)
const get = (path: string, headers?: Record<string, string>): Entry => ({
  method: 'GET',
  path,
  ...(headers && { headers }),
})
const patch = (id: number, amount: number): Entry => ({
  method: 'PATCH',
  path: `/accounts?id=eq.${id}`,
  body: { amount },
})

describe('a batch', () => {
  test('answers each request as on its own, and each request sees the changes of earlier requests', async () => {
    const shown = { prefer: 'return=representation' }
    const answer = await send([
      { method: 'POST', path: '/log', headers: shown, body: { account: 1, note: 'begun' } },
      patch(1, 4),
      { ...patch(2, 6), headers: { ...shown, accept: 'application/vnd.pgrst.object+json' } },
      get('/accounts?select=id,amount,log(note)&order=id', { prefer: 'count=exact' }),
      { method: 'DELETE', path: '/accounts?id=eq.9' },
    ])
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json; charset=utf-8'])
    const answers = JSON.parse(answer.text)
    expect(answers.map(({ status }: { status: number }) => status)).toEqual([201, 204, 200, 200, 204])
    expect(answers[0].body).toEqual([{ id: 1, account: 1, note: 'begun' }])
    expect(answers[1]).toEqual({ status: 204, headers: { 'content-range': '0-0/*' }, body: null })
    expect(answers[2].body).toMatchObject({ id: 2, amount: 6 })
    expect(answers[3]).toMatchObject({
      headers: {
        'content-range': '0-1/2',
        'content-profile': 'api',
        'content-type': 'application/json; charset=utf-8',
      },
      body: [
        { id: 1, amount: 4, log: [{ note: 'begun' }] },
        { id: 2, amount: 6, log: [] },
      ],
    })
    expect(await amounts()).toEqual([4, 6])
  })

  test('without requests has no responses', async () => {
    expect(await send([])).toMatchObject({ status: 200, text: '[]' })
  })

  test('passes on bytes unchanged, and accepts and returns non-JSON as text or Base64', async () => {
    const body = '{"id": 3, "owner": "\\u0041", "amount": 0.30000000000000000001, "facts": {"b":1,"b":2, "n": 1e400}}'
    const entries = `[ {"path": "/accounts", "body": ${body}, "method": "POST", "headers": {"Prefer": "return=representation"}},
      {"method":"POST","path":"/accounts","headers":{"content-type":"text/csv"},"body":"id,owner\\n4,Zoë\\n"},
      {"method":"POST","path":"/rpc/upper_of","headers":{"content-type":"text/plain"},"body":"e\\"x"},
      {"method":"GET","path":"/accounts?select=id,owner&order=id.desc&limit=1","headers":{"accept":"text/csv"}} ]`
    const answer = await send(entries)
    expect(answer.text).toContain('"amount":0.30000000000000000001,"facts":{"b":1,"b":2, "n": 1e400}}')
    const answers = JSON.parse(answer.text)
    expect(answers.slice(2).map((one: { body: unknown }) => one.body)).toEqual(['E"X', 'id,owner\n4,Zoë'])
  })

  test('runs as one role, with separate headers for each request, and does not pass settings to the next request', async () => {
    const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
    const answer = await send(
      [
        { method: 'POST', path: '/rpc/leave', headers: { prefer: 'timezone=Asia/Tokyo' } },
        get('/rpc/session', { prefer: 'timezone=Asia/Tokyo', accept: 'application/json' }),
        { method: 'POST', path: '/rpc/s%65ssion', body: {} },
        get('/accounts', { 'accept-profile': 'archive' }),
      ],
      { authorization, accept: 'text/html', 'x-mine': 'yes' },
    )
    expect(answer.text).not.toContain('code')
    const [left, first, second, archive] = JSON.parse(answer.text)
    expect(left.headers).toMatchObject({ 'x-own': '1' })
    expect(first.body).toMatchObject({
      role: 'clerk',
      method: 'GET',
      path: '/rpc/session',
      zone: 'Asia/Tokyo',
      read_only: 'on',
    })
    expect(first.body.headers).toMatchObject({ accept: 'application/json', 'x-mine': 'yes' })
    expect(first.body.left).toBeOneOf([null, ''])
    expect(first.headers['x-own']).toBeUndefined()
    expect(second.body).toMatchObject({ method: 'POST', path: '/rpc/session' })
    expect(second.body.headers.accept).toBeUndefined()
    expect(second.body.zone).not.toBe('Asia/Tokyo')
    expect(archive).toMatchObject({ status: 200, headers: { 'content-profile': 'archive' }, body: [] })
  })

  test('runs reads in read-only mode, and later writes still succeed', async () => {
    const refused = await send([patch(1, 3), get('/rpc/sly_write')])
    expect(JSON.parse(refused.text)).toMatchObject({ code: '25006', request: 1 })
    expect(await amounts()).toEqual([10, 0])
    expect((await send([get('/accounts'), patch(1, 3), get('/rpc/session'), patch(2, 1)])).status).toBe(200)
    expect(await amounts()).toEqual([3, 1])
  })

  test('uses the strictest isolation level of its requests', async () => {
    const answer = await send([get('/rpc/session'), get('/rpc/strict')])
    expect(JSON.parse(answer.text)[0].body.level).toBe('serializable')
    expect(JSON.parse(answer.text)[1].body).toBe('serializable')
  })

  test('is rolled back if the client requests that, and the client gets all responses', async () => {
    const answer = await send([patch(1, 3), get('/accounts?select=amount&id=eq.1')], { prefer: 'tx=rollback' })
    expect(answer.headers['preference-applied']).toBe('tx=rollback')
    expect(JSON.parse(answer.text)[1].body).toEqual([{ amount: 3 }])
    expect(await amounts()).toEqual([10, 0])
  })
})

describe('a batch is committed completely or not at all:', () => {
  test.each<[string, Entry, number, Record<string, unknown>]>([
    ['a constraint', patch(2, -1), 400, { code: '23514' }],
    ['a missing relation', get('/nothing'), 404, { code: 'RST205' }],
    ['an invalid query string', get('/accounts?id=1'), 400, { code: 'RST100' }],
    [
      'one object of several',
      {
        ...patch(0, 1),
        path: '/accounts',
        headers: { prefer: 'return=representation', accept: 'application/vnd.pgrst.object+json' },
      },
      406,
      { code: 'RST116' },
    ],
    ['the pre-request function', { method: 'DELETE', path: '/log' }, 403, { message: 'never' }],
    ['an offset beyond the rows', get('/accounts?offset=9', { prefer: 'count=exact' }), 416, { code: 'RST103' }],
    [
      'a body that is not a row',
      { method: 'POST', path: '/accounts', body: [{ id: 1 }, { owner: 'x' }] },
      400,
      { code: 'RST102' },
    ],
  ])('%s', async (_, entry, status, error) => {
    const answer = await send([patch(1, 4), entry, patch(1, 5)])
    expect(answer.status).toBe(status)
    expect(JSON.parse(answer.text)).toMatchObject({ ...error, request: 1 })
    expect(await amounts()).toEqual([10, 0])
  })

  test('a deferred constraint that fails is an error of the batch, not of a single request', async () => {
    const answer = await send([{ method: 'POST', path: '/log', body: { account: 77 } }, patch(1, 4)])
    expect([answer.status, JSON.parse(answer.text).request]).toEqual([409, undefined])
    expect(await amounts()).toEqual([10, 0])
  })

  test('role limits apply to each request', async () => {
    await postgres.run(`INSERT INTO api.log (note) SELECT 'x' FROM generate_series(1, 4)`)
    const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
    const answer = await send([patch(1, 4), get('/log')], { authorization })
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'RSTB01', request: 1 })
    expect(await amounts()).toEqual([10, 0])
  })

  test('batches that conflict are retried', async () => {
    const strict = get('/rpc/strict')
    const increment = async (amount: number) =>
      send([strict, get('/accounts?id=eq.1'), patch(1, amount), patch(2, amount)])
    const answers = await Promise.all([1, 2, 3].map(increment))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    const [one, two] = await amounts()
    expect(one).toBe(two)
  })
})

describe('invalid batches are refused:', () => {
  const wrong = (details: unknown, request?: number) => ({
    code: 'RSTB20',
    details,
    ...(request === undefined ? {} : { request }),
  })
  test.each<[string, unknown, Record<string, unknown>]>([
    ['an object', '{}', wrong('The body must be a list of requests, in JSON')],
    ['a text', '"x"', wrong('The body must be a list of requests, in JSON')],
    ['a number instead of a list', '1', wrong('The body must be a list of requests, in JSON')],
    ['an object', '{"method": "GET", "path": "/log"}', wrong('The body must be a list of requests, in JSON')],
    ['nothing', '', { code: 'RSTB20' }],
    ['no JSON', '[{]', { code: 'RST102' }],
    ['too many requests', [1, 2, 3, 4, 5, 6].map(() => get('/log')), wrong('A batch has at most 5 requests')],
    ['a number', [get('/log'), 1], wrong('it must be an object with method, path, headers and body', 1)],
    ['no method', [{ path: '/log' }], wrong('method must be GET, HEAD, POST, PATCH, PUT or DELETE', 0)],
    ['an absolute URL', [get('http://other/log')], wrong('path must begin with / and be encoded as in a URL', 0)],
    ['a path with a line break', [get('/log\r\nx: y')], wrong('path must begin with / and be encoded as in a URL', 0)],
    ['an unknown member', [{ ...get('/log'), role: 'clerk' }], wrong('role is not allowed in a request', 0)],
    [
      'another role',
      [get('/log', { Authorization: 'Bearer x' })],
      wrong(expect.stringMatching(/^headers\.authorization is none of accept, /), 0),
    ],
    [
      'a header with a line break',
      [get('/log', { accept: 'a\nb' })],
      wrong('headers.accept must not have control characters', 0),
    ],
    [
      'a nested batch',
      [get('/log'), { method: 'POST', path: '/b%61tch', body: [] }],
      wrong('path must not be the batch path: batches cannot be nested', 1),
    ],
    ['the root', [get('/')], wrong('path must be the path of a relation or a function', 0)],
    ['a read with a body', [{ ...get('/log'), body: {} }], wrong('body is not allowed for GET', 0)],
    [
      'CSV that is not a text',
      [{ method: 'POST', path: '/log', headers: { 'content-type': 'text/csv' }, body: {} }],
      wrong('body must be a string if content-type is not JSON', 0),
    ],
  ])('%s', async (_, entries, error) => {
    const answer = await send(entries as string | unknown[])
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text)).toMatchObject(error)
    expect(JSON.parse(answer.text)).not.toHaveProperty('request', 'request' in error ? -1 : expect.anything())
  })

  test('refuses a large batch without a token, and a batch whose response is too large', async () => {
    const large = [{ method: 'POST', path: '/log', body: { note: 'x'.repeat(100_000) } }]
    expect(await send(large)).toMatchObject({ status: 413 })
    const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
    expect((await send(large, { authorization })).status).toBe(200)
    await postgres.run(`INSERT INTO api.log (note) VALUES (repeat('x', 6000000))`)
    const answer = await send([get('/log?limit=3'), get('/log?limit=3')], { authorization })
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'RSTB20', request: 1 })
  })

  test('refuses other methods and other content types', async () => {
    expect((await service.send('/batch')).status).toBe(405)
    expect((await service.send('/batch', { method: 'OPTIONS' })).headers.allow).toBe('OPTIONS,POST')
    expect((await send('id\n1', { 'content-type': 'text/csv' })).status).toBe(400)
  })

  test('without a configured path, the batch path is the path of a relation', async () => {
    const { 'batch-path': _, 'batch-max-requests': __, ...rest } = keys
    const other = await startService(postgres.uri('postgres'), rest)
    const answer = await other.send('/batch', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '[]',
    })
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([404, 'RST205'])
    await other.stop()
  })

  test("applies the role's settings to each request, including settings that the role cannot set itself", async () => {
    const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
    const answer = await send([get('/log'), get('/log'), { method: 'DELETE', path: '/log?id=eq.9' }, get('/log')], {
      authorization,
    })
    expect(answer.status).toBe(403)
    expect(JSON.parse(answer.text)).toMatchObject({ message: 'never', request: 2 })
  })

  test('yields to other requests while the service plans its requests', async () => {
    // The first request takes several times as long as later requests, so the test uses many.
    const entries = Array.from({ length: 50 }, () => get(`/accounts?select=${'a:id,'.repeat(1_600)}nowhere`))
    const large = await startService(postgres.uri('postgres'), { ...keys, 'batch-max-requests': entries.length })
    onTestFinished(() => large.stop())
    const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
    let longestMs = 0
    let last = performance.now()
    const timer = setInterval(() => {
      longestMs = Math.max(longestMs, performance.now() - last)
      last = performance.now()
    }, 1)
    onTestFinished(() => clearInterval(timer))
    const began = performance.now()
    // After the service has planned all requests, Postgres reports for the first that the column does not exist.
    const answer = await large.send('/batch', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization },
      body: JSON.stringify(entries),
    })
    expect(JSON.parse(answer.text)).toMatchObject({ code: '42703', request: 0 })
    expect(longestMs).toBeLessThan((performance.now() - began) / 2)
  })

  test('commits nothing if the response and other unread responses together exceed the memory budget', async () => {
    const small = await startService(postgres.uri('postgres'), { ...keys, 'server-max-held-bytes': 1_048_576 })
    onTestFinished(() => small.stop())
    const body = JSON.stringify([patch(1, 7), get('/rpc/text_of?bytes=9000000')])
    const socket = connect(small.port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    socket.pause()
    const head = `POST /batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    socket.write(`${head}\r\n\r\n${body}`)
    await until(async () => (await amounts())[0] === 7)
    await postgres.run(content)
    const answer = await small.send('/batch', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    expect(answer.status).toBe(503)
    expect(await amounts()).toEqual([10, 0])
  })
})

test("slices of JSON values equal the client's text", () => {
  const written = fc
    .jsonValue({ maxDepth: 3 })
    .chain(value => fc.constantFrom(JSON.stringify(value), JSON.stringify(value, null, '\t')))
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string(), written)), fc.constantFrom('', ' ', '\r\n '), (members, space) => {
      const values = members.map(([, value]) => value)
      const array = `[${space}${values.join(`${space},${space}`)}${space}]`
      expect(elementsOf(array, values.length)).toEqual(values)
      expect(elementsOf(array, 3)).toEqual(values.slice(0, 3))
      const object = members.map(([name, value]) => `${JSON.stringify(name)}${space}:${space}${value}`)
      expect(membersOf(`{${space}${object.join(`${space},${space}`)}${space}}`)).toEqual(members)
    }),
  )
})
