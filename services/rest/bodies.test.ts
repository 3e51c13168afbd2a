/**
 * Large bodies against a real Postgres. If a client has no write privilege, the service returns Postgres's error before
 * it reads the body. Other requests do not wait meanwhile.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Answer } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE member;
  GRANT anon, member TO authenticator;
  CREATE SCHEMA api; CREATE SCHEMA hidden; GRANT USAGE ON SCHEMA api TO anon, member;
  CREATE TABLE api.locked (a text, b text);
  CREATE TABLE api.open (a text DEFAULT 'none', b text, c int GENERATED ALWAYS AS IDENTITY);
  CREATE TABLE api.partly (a text, b text);
  CREATE TABLE api.calls (role text);
  CREATE VIEW api.seen AS SELECT * FROM api.locked;
  CREATE FUNCTION api.take(json) RETURNS int LANGUAGE sql AS 'SELECT length($1::text)';
  CREATE FUNCTION api.bytes(bytea) RETURNS text LANGUAGE sql AS $$ SELECT md5($1) $$;
  CREATE FUNCTION api.words(VARIADIC a text[]) RETURNS text[] LANGUAGE sql AS 'SELECT a';
  CREATE FUNCTION api.named(a text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT length(a)';
  CREATE FUNCTION api.secret(a text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
  CREATE FUNCTION api.secret(b int) RETURNS int LANGUAGE sql AS 'SELECT 2';
  CREATE FUNCTION api.secret_json(json) RETURNS int LANGUAGE sql AS 'SELECT 1';
  CREATE FUNCTION api.secret_bytes(bytea) RETURNS int LANGUAGE sql AS 'SELECT 1';
  CREATE FUNCTION api.half(a text) RETURNS int LANGUAGE sql AS 'SELECT 1';
  CREATE FUNCTION api.half(b int) RETURNS int LANGUAGE sql AS 'SELECT 2';
  REVOKE EXECUTE ON FUNCTION api.secret_json, api.secret_bytes, api.secret(text), api.secret(int), api.half(text) FROM PUBLIC;
  GRANT SELECT, INSERT, UPDATE ON api.open TO anon;
  GRANT INSERT (b), UPDATE (b), SELECT ON api.partly TO anon;
  GRANT SELECT, INSERT, UPDATE ON api.locked TO member;`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), {
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-pool': 2,
    'jwt-secret': jwtSecret,
    'db-tx-end': 'rollback-allow-override',
  })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const large = 200_000
const json = { 'content-type': 'application/json' }
const csv = { 'content-type': 'text/csv' }

/**
 * Sends the head and a part of the body, never the whole body. So a response proves that the server did not wait for
 * the body.
 */
async function begin(
  line: string,
  headers: Record<string, string>,
  begun: string,
  port = service.port,
): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  const framing = 'transfer-encoding' in headers ? {} : { 'content-length': String(large) }
  const list = Object.entries({ host: 'x', ...framing, ...headers })
  socket.write(`${line} HTTP/1.1\r\n${list.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${begun}`)
  let received = ''
  for await (const chunk of socket) {
    received += chunk
    const [, length = '0'] = /content-length: (\d+)/i.exec(received) ?? []
    if (received.length - received.indexOf('\r\n\r\n') - 4 >= Number(length)) break
  }
  return received
}

const send = (line: string, headers: Record<string, string>, body: string | Buffer): Promise<Answer> => {
  const [method = '', path = ''] = line.split(' ')
  return service.send(path, { method, headers, body })
}

describe('a response before the service has received a large body', () => {
  test.each<[string, Record<string, string>, number, string]>([
    ['POST /nowhere', csv, 404, 'RST205'],
    ['PATCH /nowhere?a=eq.1', json, 404, 'RST205'],
    ['POST /rpc/nowhere', json, 404, 'RST202'],
    ['POST /rpc/named', { 'content-type': 'text/plain' }, 404, 'RST202'],
    ['POST /open?columns=x', json, 400, 'RST204'],
    ['POST /open?select=nothing(a)', { ...json, prefer: 'return=representation' }, 400, 'RST200'],
    ['POST /open', { 'content-type': 'image/png' }, 415, 'RST107'],
    ['PUT /rpc/named', json, 405, 'RST101'],
    ['PROPFIND /open', json, 405, 'RST117'],
    ['POST /open', { ...json, authorization: 'Bearer a.b.c' }, 401, 'RST301'],
    ['POST /locked', csv, 400, '42501'],
    ['POST /locked?columns=a', json, 400, '42501'],
    ['PATCH /locked?a=eq.1', json, 400, '42501'],
    ['PUT /locked?a=eq.1', json, 405, 'RST105'],
    ['POST /seen', json, 400, '42501'],
    ['POST /partly?columns=a', json, 400, '42501'],
    ['POST /rpc/secret', json, 400, '42501'],
    ['POST /rpc/secret_json', json, 400, '42501'],
    ['POST /rpc/secret_bytes', { 'content-type': 'application/octet-stream' }, 400, '42501'],
    ['POST /rpc/secret', { 'content-type': 'application/x-www-form-urlencoded' }, 400, '42501'],
  ])('%s %j', async (line, headers, status, code) => {
    const received = await begin(line, headers, '[')
    expect(received).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(received).toContain(`"${code}"`)
  })

  test.each<[string, Record<string, string>, string]>([
    ['POST /locked', csv, 'a,b\n1,2'],
    ['POST /locked', { ...json, prefer: 'return=representation' }, '{"a":"1"}'],
    ['PATCH /locked?a=eq.1', json, '{"a":"1"}'],
    ['POST /seen', json, '[{"a":"1"}]'],
    ['POST /rpc/secret', json, '{"a":"1"}'],
  ])('to %s %j equals the response to a small body', async (line, headers, body) => {
    const small = await send(line, headers, body)
    const received = await begin(line, headers, '[')
    expect(JSON.parse(received.slice(received.indexOf('\r\n\r\n')))).toEqual(JSON.parse(small.text))
    expect(received).toMatch(new RegExp(`^HTTP/1.1 ${small.status} `))
  })

  test('is also sent if the body is chunked', async () => {
    const received = await begin('POST /locked', { ...json, 'transfer-encoding': 'chunked' }, '1\r\n[\r\n')
    expect(received).toContain('"42501"')
  })
})

const rows = (count: number) => Array.from({ length: count }, (_, number) => ({ b: `some text ${number}` }))

describe('a large body of a client with the write privilege', () => {
  test.each<[string, Record<string, string>, string, number]>([
    ['POST /open', json, JSON.stringify(rows(10_000)), 201],
    [
      'POST /open',
      csv,
      `b\n${rows(10_000)
        .map(({ b }) => b)
        .join('\n')}`,
      201,
    ],
    ['POST /partly', json, JSON.stringify(rows(10_000)), 201],
    ['PATCH /partly?a=eq.1', json, JSON.stringify({ b: 'x'.repeat(large) }), 204],
    ['POST /rpc/half', json, `{"b":1}${' '.repeat(large)}`, 200],
    ['POST /rpc/take', json, JSON.stringify(rows(10_000)), 200],
  ])('%s %j is accepted', async (line, headers, body, status) => {
    expect(await send(line, headers, body)).toMatchObject({ status })
  })

  test('reaches Postgres unchanged', async () => {
    const bytes = Buffer.from(Array.from({ length: large }, (_, index) => (index * 7) % 256))
    const octets = { 'content-type': 'application/octet-stream' }
    const { text } = await send('POST /rpc/bytes', octets, bytes)
    const { rows: found } = await postgres.run(`SELECT md5(decode('${bytes.toString('base64')}', 'base64')) AS sum`)
    expect(JSON.parse(text)).toBe(found[0]?.sum)
    const word = `"\\,{}ä${'x'.repeat(large)}`
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const words = await send('POST /rpc/words', form, `a=${encodeURIComponent(word)}&a=b`)
    expect(JSON.parse(words.text)).toEqual([word, 'b'])
  })

  test('is accepted at once after GRANT, and refused at once after REVOKE', async () => {
    const body = JSON.stringify(rows(10_000))
    const status = async () => (await send('POST /calls', json, JSON.stringify([{ role: 'x'.repeat(large) }]))).status
    expect(await status()).toBe(400)
    await postgres.run('GRANT INSERT ON api.calls TO anon')
    expect(await status()).toBe(201)
    expect(await status()).toBe(201)
    await postgres.run('REVOKE INSERT ON api.calls FROM anon')
    expect(await status()).toBe(400)
    const authorization = `Bearer ${await tokenOf({ role: 'member' })}`
    expect((await send('POST /locked', { ...json, authorization }, body)).status).toBe(201)
  })
})

describe('CSV', () => {
  test.each<[string, string, unknown]>([
    [
      'POST /open?select=a,b',
      'b,a\n1,NULL\n"2,",\n',
      [
        { a: null, b: '1' },
        { a: '', b: '2,' },
      ],
    ],
    ['POST /open?select=a,b&columns=a', 'b\n1', [{ a: 'none', b: '1' }]],
    ['POST /open?select=a,b', 'a,b,a\n1,2,3', [{ a: '3', b: '2' }]],
  ])('%s %j', async (line, body, expected) => {
    const headers = { ...csv, prefer: 'return=representation' }
    expect(JSON.parse((await send(line, headers, body)).text)).toEqual(expected)
  })

  test("a body without a column uses the column's default if the client requests that", async () => {
    const headers = { ...csv, prefer: 'return=representation, missing=default' }
    const { text } = await send('POST /open?select=a,b&columns=a,b', headers, 'b\n1')
    expect(JSON.parse(text)).toEqual([{ a: 'none', b: '1' }])
  })
})

describe('with a pre-request function', () => {
  let guarded: TestService
  beforeAll(async () => {
    await postgres.run(`
      CREATE SCHEMA guard; GRANT USAGE ON SCHEMA guard TO anon; CREATE TABLE guard.seen (at timestamptz); GRANT INSERT ON guard.seen TO anon;
      CREATE FUNCTION guard.check() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('request.headers', true)::json ->> 'x-refused' IS NOT NULL THEN
          RAISE insufficient_privilege USING MESSAGE = 'not you';
        END IF;
        IF current_setting('transaction_read_only') = 'off' THEN INSERT INTO guard.seen VALUES (now()); END IF;
      END $$`)
    const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-pre-request': 'guard.check' }
    guarded = await startService(postgres.uri('authenticator'), keys)
  })
  afterAll(() => guarded?.stop())

  test('the function refuses a large body before the service receives it; otherwise the function runs once', async () => {
    expect(await begin('POST /open', { ...json, 'x-refused': '1' }, '[', guarded.port)).toContain('not you')
    const body = JSON.stringify(rows(10_000))
    const answer = await guarded.send('/open', { method: 'POST', headers: json, body })
    expect(answer.status).toBe(201)
    expect((await postgres.run('SELECT FROM guard.seen')).rowCount).toBe(1)
  })
})
