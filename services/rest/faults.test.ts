/**
 * Faults around the service: Postgres is unreachable or has no free slot, clients disconnect, and requests exceed
 * limits.
 */
import { Agent } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Answer, sendRequest, until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api;
  CREATE TABLE api.notes (id int PRIMARY KEY, text text);
  CREATE FUNCTION api.wait() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_xact_lock(1)';
  CREATE FUNCTION api.size(text) RETURNS int LANGUAGE sql AS 'SELECT octet_length($1)';
  CREATE FUNCTION api.keep(value json) RETURNS json LANGUAGE sql AS 'SELECT value';
  CREATE FUNCTION api.pid() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
  GRANT USAGE ON SCHEMA api TO anon;
  GRANT ALL ON api.notes TO anon;`

let postgres: TestPostgres
let service: TestService
let closing: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  postgres = await startPostgres('17', { max_connections: '20', superuser_reserved_connections: '2' })
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), keys)
})
afterEach(async () => {
  await Promise.all(closing.map(close => close()))
  closing = []
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-pool': 3 }
const codeOf = ({ text }: Answer): unknown => JSON.parse(text).code
const admin = (path: string) => sendRequest(service.adminPort, path)
const post = (body: string | Buffer, type = 'application/json') => ({
  method: 'POST',
  headers: { 'Content-Type': type },
  body,
})

/** A service that the test stops. */
async function another(own: Record<string, string | number | boolean>, unready = false): Promise<TestService> {
  const made = await startService(
    postgres.uri('authenticator'),
    { ...keys, 'db-channel-enabled': false, ...own },
    { unready },
  )
  closing.push(() => made.stop())
  return made
}

async function client(): Promise<pg.Client> {
  const made = new pg.Client(postgres.uri('anon_login'))
  made.on('error', () => {})
  await made.connect()
  closing.push(() => made.end())
  return made
}

/** Holds the lock that `wait` needs, until the caller releases it. */
async function block(): Promise<() => Promise<unknown>> {
  const blocker = new pg.Client(postgres.uri('postgres'))
  // One of these tests stops Postgres.
  blocker.on('error', () => {})
  await blocker.connect()
  await blocker.query('SELECT pg_advisory_lock(1)')
  return () => blocker.end()
}

const waiting = async (): Promise<number> =>
  (await postgres.run(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'authenticator'`))
    .rows.length

test('Postgres is down when the service starts, and starts later', async () => {
  await postgres.crash()
  const late = await another({}, true)
  expect([
    (await sendRequest(late.adminPort, '/live')).status,
    (await sendRequest(late.adminPort, '/ready')).status,
  ]).toEqual([200, 503])
  expect((await sendRequest(late.adminPort, '/ready/database')).status).toBe(503)
  await until(async () => codeOf(await late.send('/notes')) === 'RST002' && late.log.length > 0)
  // A service that starts together with Postgres retries often, without backoff, and logs the fault once.
  const attempts = () => late.log.filter(line => line.includes('retrying'))
  await until(async () => attempts().length > 0)
  expect(attempts()).toEqual([expect.stringContaining('retrying in 0.25 s')])
  await postgres.start()
  await until(async () => (await sendRequest(late.adminPort, '/ready')).status === 200)
  expect((await sendRequest(late.adminPort, '/ready/database')).status).toBe(200)
  expect((await late.send('/notes')).text).toBe('[]')
  // The other service had read the database before Postgres went down. It also answers again.
  await until(async () => (await admin('/ready')).status === 200)
})

test('Postgres goes down while requests run, and returns', async () => {
  const release = await block()
  const slow = service.send('/rpc/wait', post('{}'))
  await until(async () => (await waiting()) === 1)
  await postgres.crash()
  await release().catch(() => {})
  expect(codeOf(await slow)).toBe('RST000')
  const refused = await service.send('/notes')
  expect([refused.status, codeOf(refused), refused.headers['retry-after']]).toEqual([503, 'RST000', '1'])
  await until(async () => (await admin('/ready')).status === 503)
  expect((await admin('/live')).status).toBe(200)
  await postgres.start()
  expect((await service.send('/notes')).status).toBe(200)
  await until(async () => (await admin('/ready')).status === 200)
})

test('a connection terminated from outside fails only the request that ran on it', async () => {
  const release = await block()
  const slow = service.send('/rpc/wait', post('{}'))
  await until(async () => (await waiting()) === 1)
  await postgres.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)
  const answer = await slow
  await release()
  expect([answer.status, codeOf(answer), answer.headers['retry-after']]).toEqual([503, '57P01', '1'])
  const next = await Promise.all(Array.from({ length: 10 }, () => service.send('/notes')))
  expect(next.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
})

test('Postgres has no free slot: open connections serve all requests; without an open connection, requests get 503 until a slot is free', async () => {
  await postgres.run('DROP ROLE IF EXISTS anon_login; CREATE ROLE anon_login LOGIN')
  const one = await another({})
  const none = await another({})
  expect((await one.send('/notes')).status).toBe(200)
  const fill = async (): Promise<unknown> => client().then(fill, error => error)
  expect(await fill()).toMatchObject({ code: '53300' })
  const refused = await none.send('/notes')
  expect([refused.status, codeOf(refused)]).toEqual([503, 'RST000'])
  expect(refused.text).toMatch(/too many clients|slots are reserved/)
  const served = await Promise.all(Array.from({ length: 30 }, () => sendRequest(one.port, '/notes')))
  expect(served.filter(({ status }) => status !== 200)).toEqual([])
  expect(await one.metric('rst_db_pool_open')).toBe(1)
  // Ends all clients except the two services. Otherwise a connection attempt of the first service could take the slot
  // that one client frees.
  await Promise.all(closing.splice(2).map(close => close()))
  await until(async () => (await none.send('/notes')).status === 200)
})

test('the service cancels the query of a client that disconnects, without effect on other clients', async () => {
  const release = await block()
  const leaving = new AbortController()
  const aborted = Array.from({ length: 3 }, () =>
    sendRequest(service.port, '/rpc/wait', { ...post('{}'), signal: leaving.signal }).catch(
      (error: Error) => error.name,
    ),
  )
  await until(async () => (await waiting()) === 3)
  // All connections are in use. This request waits for one, and its client disconnects.
  const inserting = sendRequest(service.port, '/notes', { ...post('{"id":1}'), signal: leaving.signal }).catch(
    (error: Error) => error.name,
  )
  await until(async () => (await service.metric('rst_db_pool_waiting')) === 1)
  const others = Array.from({ length: 20 }, () => sendRequest(service.port, '/notes'))
  await until(async () => (await service.metric('rst_db_pool_waiting')) === 21)
  leaving.abort()
  expect(await Promise.all([...aborted, inserting])).toEqual(['AbortError', 'AbortError', 'AbortError', 'AbortError'])
  await until(async () => (await waiting()) === 0)
  expect((await Promise.all(others)).map(({ text }) => text)).toEqual(Array.from({ length: 20 }, () => '[]'))
  await release()
  expect((await service.send('/notes')).text).toBe('[]')
  const lines = service.log.filter(line => line.includes('/rpc/wait')).slice(-3)
  expect(lines.every(line => JSON.parse(line).msg === 'the client has disconnected')).toBe(true)
})

/**
 * Starts a proxy that drops the first cancel request, as if the cancel request had arrived before its query. Returns
 * the proxy's port.
 */
async function losingOneCancel(): Promise<number> {
  const cancelCode = 80877102
  let lost = 0
  const between = createServer(inward => {
    inward.on('error', () => {})
    inward.once('data', first => {
      if (first.readInt32BE(4) === cancelCode && lost++ === 0) {
        inward.destroy()
        return
      }
      const outward = connect(postgres.port, '127.0.0.1').on('error', () => inward.destroy())
      outward.write(first)
      inward.pipe(outward).pipe(inward)
    })
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => between.once('listening', resolve))
  closing.push(async () => between.close())
  return (between.address() as AddressInfo).port // The address of a TCP server.
}

test('a lost cancel request is repeated', async () => {
  const port = await losingOneCancel()
  const one = await another({ 'db-pool': 1, 'db-uri': `postgresql://authenticator@127.0.0.1:${port}/postgres` })
  const release = await block()
  const leaving = new AbortController()
  const aborted = one.send('/rpc/wait', { ...post('{}'), signal: leaving.signal }).catch((error: Error) => error.name)
  await until(async () => (await waiting()) === 1)
  leaving.abort()
  expect(await aborted).toBe('AbortError')
  expect((await one.send('/notes')).text).toBe('[]')
  await release()
})

test('a body above the limit is 413, and a body at the limit is accepted', async () => {
  const most = 10 * 1024 * 1024
  const served = await service.send('/rpc/size', post(Buffer.alloc(most, 'a'), 'text/plain'))
  expect([served.status, served.text]).toEqual([200, String(most)])
  const refused = await sendRequest(
    service.port,
    '/rpc/size',
    post(Buffer.alloc(most + 1, 'a'), 'text/plain'),
    new Agent(),
  )
  expect([refused.status, codeOf(refused)]).toEqual([413, 'RST102'])
  const headers = { 'Content-Type': 'text/plain', 'Transfer-Encoding': 'chunked' }
  const chunked = { method: 'POST', headers, body: Buffer.alloc(2 * most, 'a') }
  const tooLarge = await sendRequest(service.port, '/rpc/size', chunked, new Agent())
  expect([tooLarge.status, codeOf(tooLarge)]).toEqual([413, 'RST102'])
})

test('an unauthorized request is refused before its body is received', async () => {
  const socket = connect(service.port, '127.0.0.1')
  closing.push(async () => socket.destroy())
  let response = ''
  socket.on('data', chunk => {
    response += String(chunk)
  })
  socket.write('POST /notes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer none\r\nContent-Length: 1000000\r\n\r\n{')
  await until(() => response.startsWith('HTTP/1.1 401 ') || response.startsWith('HTTP/1.1 500 '))
  expect(response).toContain('"code":"RST30')
})

test('a head above the limit is 431', async () => {
  const headers = { 'X-Long': 'a'.repeat(66_000) }
  expect((await sendRequest(service.port, '/notes', { headers }, new Agent())).status).toBe(431)
  expect((await sendRequest(service.port, `/notes?text=eq.${'a'.repeat(66_000)}`, {}, new Agent())).status).toBe(431)
  expect((await service.send(`/notes?text=eq.${'a'.repeat(30_000)}`)).status).toBe(200)
})

test('JSON that nests 10,000 deep is 400', async () => {
  const arrays = '['.repeat(10_000) + ']'.repeat(10_000)
  const objects = `${'{"text":'.repeat(10_000)}1${'}'.repeat(10_000)}`
  const requests = [
    () => service.send('/notes', post(arrays)),
    () => service.send('/notes', post(objects)),
    () => service.send('/notes?columns=id', post(objects)),
    () => service.send('/notes?id=eq.1', { ...post(objects), method: 'PATCH' }),
    () => service.send('/rpc/keep', post(`{"value":${arrays}}`)),
    () => service.send('/rpc/keep', post(`value=${arrays}`, 'application/x-www-form-urlencoded')),
    () => service.send('/notes', post(`id,text\n1,"${arrays}"`, 'text/csv')),
  ]
  const answers = await Promise.all(requests.map(one => one()))
  const codes = answers.map(answer => (answer.status === 400 ? codeOf(answer) : answer.status))
  // The service does not parse text bodies. Postgres parses them up to its own limit (54001).
  expect(codes).toEqual(['RST102', 'RST102', 'RST102', 'RST102', 'RST102', 200, 201])
  expect((await service.send('/notes')).status).toBe(200)
})

test('invalid HTTP gets 400 or a disconnect, and a client that sends nothing does not keep its connection', async () => {
  const answerTo = (bytes: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(service.port, '127.0.0.1')
      let text = ''
      socket.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      socket.once('error', reject).once('close', () => resolve(text))
      socket.end(bytes)
    })
  expect(await answerTo('nonsense\r\n\r\n')).toMatch(/^HTTP\/1.1 400 /)
  expect(
    await answerTo('GET /notes HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n'),
  ).toMatch(/^HTTP\/1.1 400 /)
  expect(await answerTo('POST /notes HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{')).toMatch(
    /^(HTTP\/1.1 400 |$)/,
  )
  expect(
    (await service.metric('rst_db_pool_waiting')) + (await service.metric('rst_db_pool_open')),
  ).toBeLessThanOrEqual(3)
})
