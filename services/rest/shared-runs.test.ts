/**
 * Many concurrent requests share connections. Each gets the same response as without sharing, whatever happens to the
 * other requests.
 */
import { get } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.numbers (id int PRIMARY KEY, name text NOT NULL);
  INSERT INTO api.numbers SELECT n, 'number ' || n FROM generate_series(1, 2000) n;
  CREATE VIEW api.told AS SELECT id, current_setting('request.headers')::json->>'x-own' AS own, current_setting('role') AS role FROM api.numbers;
  CREATE FUNCTION api.pause(n int) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN
    IF n % 40 = 0 THEN PERFORM pg_sleep(0.06); END IF;
    IF n % 7 = 0 THEN RAISE EXCEPTION 'no %', n USING ERRCODE = 'PT418'; END IF;
    PERFORM set_config('request.headers', '{"x-own": "somebody else"}', false);
    RETURN 'paused ' || n || repeat('.', CASE WHEN n % 50 = 1 THEN 400000 ELSE 0 END); END $$;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;
  ANALYZE;`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), {
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-pool': 3,
  })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

/** Sends a request, and disconnects before the response. */
const sendAndAbort = (path: string) =>
  new Promise<void>(resolve => {
    const request = get({ port: service.port, path, agent: false })
    request.on('error', () => resolve())
    request.on('close', () => resolve())
    setTimeout(() => request.destroy(), 3)
  })

type Question = { readonly path: string; readonly status: number; readonly text: string }

function questionOf(n: number): Question {
  const paused = `paused ${n}${'.'.repeat(n % 50 === 1 ? 400_000 : 0)}`
  switch (n % 4) {
    case 0:
      return { path: `/numbers?id=eq.${n}`, status: 200, text: `[{"id":${n},"name":"number ${n}"}]` }
    case 1:
      return { path: `/told?id=eq.${n}`, status: 200, text: `[{"id":${n},"own":"${n}","role":"anon"}]` }
    case 2:
      return { path: `/numbers?id=eq.x${n}`, status: 400, text: `invalid input syntax for type integer: \\"x${n}\\"` }
    default:
      return n % 7 === 0
        ? { path: `/rpc/pause?n=${n}`, status: 418, text: `no ${n}` }
        : { path: `/rpc/pause?n=${n}`, status: 200, text: JSON.stringify(paused) }
  }
}

test('requests that share a connection are answered independently', { timeout: 60_000 }, async () => {
  // From sequential requests, the service learns which of them are short.
  for (let round = 0; round < 60; round++) for (const n of [4, 5, 11]) await service.send(questionOf(n).path)
  let next = 0
  const wrong: string[] = []
  const client = async () => {
    for (let n = ++next; n <= 1_600; n = ++next) {
      const { path, status, text } = questionOf(n)
      if (n % 23 === 0) await sendAndAbort(path)
      const answer = await service.send(path, { headers: { 'x-own': String(n) } })
      if (answer.status !== status || !answer.text.includes(text))
        wrong.push(`${path}: ${answer.status} ${answer.text.slice(0, 200)}`)
    }
  }
  await Promise.all(Array.from({ length: 24 }, client))
  expect(wrong).toEqual([])
  await expect.poll(() => service.metric('rst_db_pool_waiting')).toBe(0)
  const [open, available] = [await service.metric('rst_db_pool_open'), await service.metric('rst_db_pool_available')]
  expect(available).toBe(open)
})
