/** Role limits on a real Postgres. A request over a limit is refused with the limit's name, and is rolled back. */
import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../testing/client.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from '../testing/service.ts'
import { limitsOf, parseRoleLimits } from './role-limits.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE clerk; CREATE ROLE boss; CREATE ROLE reader; CREATE ROLE lender; CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon, clerk, boss, reader, lender;
  CREATE TABLE api.things (id int PRIMARY KEY, note text);
  CREATE FUNCTION api.some(number int) RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT generate_series(1, number)';
  CREATE FUNCTION api.add(number int) RETURNS SETOF api.things LANGUAGE sql AS
    $$ INSERT INTO api.things SELECT -n, 'added' FROM generate_series(1, number) n RETURNING * $$;
  CREATE FUNCTION api.large(number int DEFAULT 30000) RETURNS SETOF api.things LANGUAGE sql STABLE AS
    $$ SELECT n, repeat('x', 1000) FROM generate_series(1, number) n $$;
  CREATE FUNCTION api.sleep() RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(0.3)';
  GRANT ALL ON api.things TO anon, clerk, boss, reader;`
const content = `TRUNCATE api.things; INSERT INTO api.things SELECT n, 'thing' FROM generate_series(1, 2000) n; ANALYZE api.things`

let postgres: TestPostgres
let service: TestService

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('postgres'), {
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'jwt-secret': jwtSecret,
    'role-limits': 'anon rows=3, clerk cost=20 concurrency=2, reader concurrency=1, boss rows=1999, lender rows=30000',
  })
})
beforeEach(async () => {
  await postgres.run(content)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const as = async (role: string) => ({ authorization: `Bearer ${await tokenOf({ role })}` })
const codeOf = (text: string) => (text.startsWith('{') ? JSON.parse(text).code : undefined)
const count = async () => Number((await postgres.run('SELECT count(*) FROM api.things')).rows[0]?.count)

describe('rows', () => {
  test.each([
    ['/things?id=lte.3', 200],
    ['/things?limit=3', 200],
    ['/things?offset=1997', 200],
    ['/things?id=lte.4', 400],
    ['/things', 400],
    ['/things?limit=4', 400],
    ['/rpc/some?number=3', 200],
    ['/rpc/some?number=4', 400],
  ])('%s gets status %i', async (path, status) => {
    const answer = await service.send(path)
    expect([answer.status, codeOf(answer.text)]).toEqual([status, status === 400 ? 'RSTB01' : undefined])
    if (status === 400) expect(JSON.parse(answer.text).details).toBe('Its limit in role-limits is rows=3')
  })

  test('are returned unchanged up to the limit', async () => {
    const answer = await service.send('/things?id=lte.3', { headers: { prefer: 'count=exact' } })
    expect(answer.headers['content-range']).toBe('0-2/3')
  })

  const json = { 'content-type': 'application/json' }
  test.each([
    ['an insert', 'POST', '/things', JSON.stringify([1, 2, 3, 4].map(id => ({ id: -id }))), json],
    ['an update', 'PATCH', '/things?id=lte.4', '{"id": null}', json],
    ['a delete', 'DELETE', '/things?id=lte.4', '', {}],
    ['a delete that returns its rows', 'DELETE', '/things?id=lte.4', '', { prefer: 'return=representation' }],
    ['a function that writes', 'POST', '/rpc/add', '{"number": 4}', json],
  ])('rows of %s are refused above the limit', async (_, method, path, body, headers) => {
    const sent = body.replace('{"id": null}', '{"note": "changed"}')
    const answer = await service.send(path, { method, body: sent, headers })
    expect([answer.status, codeOf(answer.text)]).toEqual([400, 'RSTB01'])
    expect(await count()).toBe(2_000)
    expect((await postgres.run(`SELECT FROM api.things WHERE note <> 'thing'`)).rowCount).toBe(0)
  })

  test('each role has its own limit', async () => {
    expect(codeOf((await service.send('/things', { headers: await as('boss') })).text)).toBe('RSTB01')
    expect((await service.send('/things?limit=1999', { headers: await as('boss') })).status).toBe(200)
  })
})

test("a streamed response has no more rows than the role's limit", async () => {
  const headers = await as('lender')
  const readLarge = (number: number) => service.send(`/rpc/large?number=${number}`, { headers })
  // The first response is one value. Once the response is known to be large, the service streams it row by row.
  for (let round = 0; round < 2; round++) {
    const refused = await readLarge(30_001)
    expect([refused.status, codeOf(refused.text)]).toEqual([400, 'RSTB01'])
  }
  const answer = await readLarge(30_000)
  expect([answer.status, answer.headers['transfer-encoding']]).toEqual([200, 'chunked'])
  expect(JSON.parse(answer.text)).toHaveLength(30_000)
})

describe('cost', () => {
  test('the cost is checked before the plan runs', async () => {
    const headers = await as('clerk')
    expect((await service.send('/things?id=eq.1', { headers })).text).toBe('[{"id":1,"note":"thing"}]')
    const refused = await service.send('/things?note=eq.thing', { headers })
    expect(refused.status).toBe(400)
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'RSTB02', details: 'Its limit in role-limits is cost=20' })
    expect(refused.text).not.toMatch(/\d{2}\.\d/)
  })

  test('a write that is refused because of its cost changes nothing', async () => {
    const headers = await as('clerk')
    const one = await service.send('/things?id=eq.1', { method: 'DELETE', headers })
    const all = await service.send('/things?note=eq.thing', { method: 'DELETE', headers })
    expect([one.status, codeOf(all.text)]).toEqual([204, 'RSTB02'])
    expect(await count()).toBe(1_999)
  })
})

test('the number of concurrent requests is limited per role', async () => {
  const headers = await as('clerk')
  const many = await Promise.all([1, 2, 3, 4].map(() => service.send('/rpc/sleep', { method: 'POST', headers })))
  expect(many.map(({ status }) => status).sort()).toEqual([204, 204, 429, 429])
  const refused = many.find(({ status }) => status === 429)
  expect(JSON.parse(refused?.text ?? '')).toMatchObject({
    code: 'RSTB00',
    details: 'Its limit in role-limits is concurrency=2',
  })
  expect(refused?.headers['retry-after']).toBe('1')
  expect((await service.send('/rpc/sleep', { method: 'POST', headers })).status).toBe(204)
})

test('a response whose client still reads it counts', async () => {
  const headers = await as('reader')
  const socket = connect(service.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`GET /rpc/large HTTP/1.1\r\nHost: x\r\nAuthorization: ${headers.authorization}\r\n\r\n`)
  // From here, the client does not read.
  await once(socket, 'readable')
  expect((await service.send('/things?limit=1', { headers })).status).toBe(429)
  socket.destroy()
  await until(async () => (await service.send('/things?limit=1', { headers })).status === 200)
})

test('a request whose client has disconnected does not count', async () => {
  const headers = await as('clerk')
  for (let round = 0; round < 3; round++) {
    const leaving = new AbortController()
    const pending = service.send('/rpc/sleep', { method: 'POST', headers, signal: leaving.signal }).catch(() => {})
    setTimeout(() => leaving.abort(), 20)
    await pending
  }
  await until(async () => (await service.send('/things?id=eq.1', { headers })).status === 200)
})

describe('the configuration key', () => {
  const role = fc.stringMatching(/^[a-z*][a-z_. -]{0,8}[a-z]$/)
  const limit = fc.option(fc.integer({ min: 1, max: 1_000_000 }), { nil: undefined })
  const limits = fc
    .record({ rows: limit, cost: limit, concurrency: limit })
    .map(one => Object.fromEntries(Object.entries(one).filter(([, value]) => value !== undefined)))
    .filter(one => Object.keys(one).length > 0)

  test('is parsed as documented', () => {
    fc.assert(
      fc.property(fc.dictionary(role, limits, { minKeys: 1, maxKeys: 4 }), all => {
        const text = Object.entries(all)
          .map(([name, one]) => [name, ...Object.entries(one).map(([key, value]) => `${key}=${value}`)].join(' '))
          .join(', ')
        expect(parseRoleLimits(text)).toEqual(new Map(Object.entries(all)))
      }),
    )
  })

  test.each([
    'anon',
    'anon rows=0',
    'anon rows=-1',
    'anon rows=1 rows=2',
    'anon row=1',
    'rows=1',
    'a rows=1,',
    'a rows=1, a cost=1',
    'a rows=1 b',
  ])('is not %j', text => {
    expect(parseRoleLimits(text)).toBeUndefined()
  })

  test('uses the limits of all roles for those that a role does not set', () => {
    const all = parseRoleLimits('a rows=1, * rows=5 cost=9') ?? new Map()
    expect([limitsOf(all, 'a'), limitsOf(all, 'b')]).toEqual([
      { rows: 1, cost: 9 },
      { rows: 5, cost: 9 },
    ])
  })
})
