/**
 * The service streams larger responses as rows arrive from Postgres. The bytes are the same as without a stream. The
 * tests use the wait events of a real Postgres.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.large (id int PRIMARY KEY, content text NOT NULL);
  INSERT INTO api.large SELECT n, repeat(md5(n::text), 128) FROM generate_series(1, 12800) n;
  CREATE TABLE api.kinds (id int PRIMARY KEY, name text, price numeric(8, 2), at timestamptz, tags text[], details jsonb, raw json, is_it bool, long text);
  INSERT INTO api.kinds SELECT n, CASE WHEN n % 7 > 0 THEN E'a "name",\\n' || n END, n * 1.25, timestamptz '2024-01-01 00:00Z' + n * interval '1 hour',
    ARRAY['a,b', NULL, n::text], jsonb_build_object('n', n, 'nothing', NULL), E'{"a":\\n 1}', n % 2 = 0, repeat('x', 600) FROM generate_series(1, 900) n;
  CREATE TABLE api.nothing (id int PRIMARY KEY);
  CREATE FUNCTION api.some(lowest int) RETURNS SETOF api.kinds LANGUAGE sql STABLE AS 'SELECT * FROM api.kinds WHERE id >= lowest ORDER BY id';
  CREATE FUNCTION api.text_of(bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT repeat('x', bytes) $$;
  CREATE TYPE api.mood AS ENUM ('good', 'bad');
  CREATE FUNCTION api.mood_json(mood api.mood) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    IF mood = 'bad' THEN RAISE EXCEPTION 'a bad mood' USING ERRCODE = 'PT418'; END IF; RETURN to_json(mood::text); END $$;
  CREATE CAST (api.mood AS json) WITH FUNCTION api.mood_json(api.mood);
  CREATE TABLE api.moods (id int, mood api.mood, content text);
  INSERT INTO api.moods SELECT n, CASE WHEN n < 4000 THEN 'good' ELSE 'bad' END::api.mood, repeat('x', 1000) FROM generate_series(1, 4000) n;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;
  ANALYZE;`

let postgres: TestPostgres
let service: TestService
const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'ndjson-enabled': true }
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), { ...keys, 'db-pool': 1 })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

/** `"content":` and 4,096 characters for each row. */
const rowBytes = '{"content":"'.length + 4_096 + '"}'.length
const largeBytes = 12_800 * (rowBytes + ', \n '.length) - ', \n '.length + 2

/** A client that reads only what fits in the kernel's buffers, until it continues. */
async function slowClient(line: string, port = service.port): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  socket.pause()
  socket.write(`${line}\r\nHost: x\r\n\r\n`)
  return socket
}

/**
 * All bytes until the server closes the connection or the response ends: by its last chunk, or after `length` bytes.
 */
async function rest(
  socket: Socket,
  length = Number.POSITIVE_INFINITY,
): Promise<{ head: string; bytes: number; isComplete: boolean; error: string | undefined }> {
  let head = ''
  let tail = ''
  let bytes = 0
  let error: string | undefined
  const isComplete = () => tail.endsWith('\r\n0\r\n\r\n')
  socket.on('error', (cause: NodeJS.ErrnoException) => {
    error = cause.code
  })
  await new Promise<void>(resolve => {
    socket.on('close', resolve)
    socket.on('data', (chunk: Buffer) => {
      if (bytes === 0) head = chunk.toString('latin1').split('\r\n\r\n')[0] ?? ''
      bytes += chunk.length
      tail = (tail + chunk.toString('latin1', Math.max(0, chunk.length - 16))).slice(-16)
      if (isComplete() || bytes >= head.length + '\r\n\r\n'.length + length) resolve()
    })
    socket.resume()
  })
  return { head, bytes, isComplete: isComplete(), error }
}

/** The wait events of the service's connections in Postgres. */
const waits = async (): Promise<string[]> => {
  const text = `SELECT coalesce(wait_event, state) AS wait FROM pg_stat_activity WHERE usename = 'authenticator' AND query LIKE 'WITH %'`
  return (await postgres.run(text)).rows.map(row => String(row.wait))
}
const isBlocked = async () => (await waits()).includes('ClientWrite')

/**
 * Terminates the one session that answers. Its wait event does not identify the session, because a paused session waits
 * for its client only most of the time.
 */
async function terminateAnswer(): Promise<void> {
  const { rows } = await postgres.run(
    `SELECT pg_terminate_backend(pid) AS terminated FROM pg_stat_activity
      WHERE usename = 'authenticator' AND state = 'active' AND query LIKE 'WITH %'`,
  )
  expect(rows).toEqual([{ terminated: true }])
}

describe('a response of 50 MiB', () => {
  test('reaches a slow client as the client reads, while Postgres waits', async () => {
    const before = process.memoryUsage().arrayBuffers
    const socket = await slowClient('GET /large?select=content HTTP/1.1')
    await until(isBlocked)
    // The buffers of the kernel and of the service contain a small part of the response.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(25_000_000)
    const { head, bytes, isComplete } = await rest(socket)
    expect(isComplete).toBe(true)
    expect(bytes).toBeGreaterThan(largeBytes)
    expect(head).toContain('Content-Range: 0-12799/*')
    expect(head).toContain('Transfer-Encoding: chunked')
  })

  test("has the same bytes as Postgres's aggregate of all rows", async () => {
    const { text, headers } = await service.send('/large?select=content&order=id', {
      headers: { prefer: 'count=exact' },
    })
    const { rows } = await postgres.run(
      'SELECT md5(json_agg(x)::text) AS hash FROM (SELECT content FROM api.large ORDER BY id) x',
    )
    expect(text).toHaveLength(largeBytes)
    expect(createHash('md5').update(text).digest('hex')).toBe(rows[0]?.hash)
    expect(headers['content-range']).toBe('0-12799/12800')
  })

  test('is streamed also if it is one value, with its length', async () => {
    const socket = await slowClient('GET /rpc/text_of?bytes=30000000 HTTP/1.1')
    await until(isBlocked)
    const length = 30_000_002
    const { head, bytes } = await rest(socket, length)
    expect(head).toContain(`Content-Length: ${length}`)
    expect(bytes).toBe(head.length + '\r\n\r\n'.length + length)
  })

  test('stops in Postgres when the client disconnects: the service cancels the query', async () => {
    const socket = await slowClient('GET /large HTTP/1.1')
    await until(isBlocked)
    socket.destroy()
    await until(async () => !(await isBlocked()))
    expect((await service.send('/nothing')).text).toBe('[]')
  })

  test.each(['HTTP/1.1', 'HTTP/1.0'])('is visibly aborted if it fails in the middle: %s', async version => {
    const socket = await slowClient(`GET /large ${version}`)
    await until(isBlocked)
    await terminateAnswer()
    const { head, isComplete, error } = await rest(socket)
    expect(head).toContain('200 OK')
    expect(isComplete).toBe(false)
    if (version === 'HTTP/1.0') expect(error).toBe('ECONNRESET')
    expect(service.log.at(-1)).toContain('was aborted')
    expect((await service.send('/nothing')).status).toBe(200)
  })

  test('does not block its connection: if another request needs the connection, the service reads the response into memory', async () => {
    const socket = await slowClient('GET /large HTTP/1.1')
    await until(isBlocked)
    expect((await service.send('/nothing')).text).toBe('[]')
    expect((await rest(socket)).isComplete).toBe(true)
  })

  test('needs as much memory as its length', async () => {
    const limitedKeys = { ...keys, 'db-pool': 1, 'server-max-held-bytes': largeBytes + 5_000_000 }
    const budgeted = await startService(postgres.uri('authenticator'), limitedKeys)
    onTestFinished(() => budgeted.stop())
    const socket = await slowClient('GET /large HTTP/1.1', budgeted.port)
    await until(isBlocked)
    expect((await budgeted.send('/nothing')).text).toBe('[]')
    expect((await rest(socket)).isComplete).toBe(true)
  })

  test('is cancelled for other requests if it does not fit in memory', { timeout: 30_000 }, async () => {
    const small = { ...keys, 'db-pool': 2, 'server-max-held-bytes': 1_048_576 }
    const crowded = await startService(postgres.uri('authenticator'), small)
    onTestFinished(() => crowded.stop())
    for (let count = 0; count < 3; count++) await slowClient('GET /large HTTP/1.1', crowded.port)
    await until(async () => (await waits()).filter(wait => wait === 'ClientWrite').length === 2)
    expect((await crowded.send('/nothing')).status).toBe(200)
    expect(crowded.log.some(line => line.includes('was aborted'))).toBe(true)
  })

  test('does not exceed its statement timeout because of a slow client', async () => {
    await postgres.run(`ALTER ROLE anon SET statement_timeout TO '3s'`)
    const limited = await startService(postgres.uri('authenticator'), keys)
    onTestFinished(async () => {
      await limited.stop()
      await postgres.run('ALTER ROLE anon RESET statement_timeout')
    })
    // More than the kernel buffers for a client. Little enough that a busy machine reads it in the second half of the
    // timeout.
    const socket = await slowClient('GET /large?limit=4000 HTTP/1.1', limited.port)
    await until(isBlocked)
    await new Promise(resolve => setTimeout(resolve, 3_500))
    expect((await rest(socket)).isComplete).toBe(true)
  })
})

describe('a response sent row by row has the same bytes as a response in one piece', () => {
  test.each([
    ['/kinds?order=id', {}],
    ['/kinds?select=id,name,price::text,tags,n:details->n,details->>n&order=id', {}],
    ['/kinds?order=id', { accept: 'application/vnd.pgrst.array+json;nulls=stripped' }],
    ['/kinds?order=id', { accept: 'text/csv' }],
    ['/kinds?order=id', { accept: 'application/x-ndjson' }],
    ['/kinds?order=id&id=gt.10', { prefer: 'count=exact' }],
    ['/kinds?order=id&offset=10', { prefer: 'count=exact' }],
    ['/kinds?order=id', { prefer: 'count=planned' }],
    ['/kinds?order=id&id=gt.1000', { prefer: 'count=estimated' }],
    ['/kinds?order=id&id=gt.1000', { accept: 'text/csv' }],
    ['/nothing', {}],
    ['/rpc/some?lowest=5', {}],
    ['/rpc/some?lowest=5', { accept: 'text/csv', prefer: 'count=exact' }],
    ['/rpc/some?lowest=5&select=id,name&id=lt.20', { accept: 'application/x-ndjson' }],
  ])('%s %o', async (path, headers) => {
    // After the service has recorded a large response, it streams rows one by one.
    const first = await service.send(path, { headers })
    const streamed = await service.send(path, { headers })
    expect(streamed.text).toBe(first.text)
    // The service never streams so few rows one by one.
    const paged = await service.send(`${path}${path.includes('?') ? '&' : '?'}limit=1000`, { headers })
    expect(streamed.text).toBe(paged.text)
    expect(streamed.status).toBe(paged.status)
    const { 'content-location': _, 'content-length': __, date: ___, ...same } = paged.headers
    expect(streamed.headers).toMatchObject(same)
  })

  test('the service detects a row that cannot be converted before it sends the head', async () => {
    const { status, text } = await service.send('/moods?order=id')
    expect(status).toBe(418)
    expect(JSON.parse(text)).toMatchObject({ message: 'a bad mood' })
    expect(JSON.parse((await service.send('/moods?order=id&mood=eq.good')).text)).toHaveLength(3_999)
  })
})
