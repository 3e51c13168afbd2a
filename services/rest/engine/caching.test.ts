/** Caching headers, against a real Postgres: what a response depends on, and conditional requests. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendRequest } from '../../testing/client.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { startService, type TestService } from '../testing/service.ts'
import { tagged } from './caching.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon; CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO anon;
  CREATE TABLE api.notes (id int PRIMARY KEY, content text); INSERT INTO api.notes SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) n;
  CREATE FUNCTION api.own() RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN
    PERFORM set_config('response.headers', '[{"ETag": "W/\\"7\\""}, {"Cache-Control": "max-age=5"}]', true); RETURN now()::text; END $$;
  GRANT SELECT, UPDATE ON api.notes TO anon;`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  const keys = { 'db-schemas': 'api,other', 'db-anon-role': 'anon', 'server-etag-enabled': true }
  service = await startService(postgres.uri('authenticator'), keys)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const fetchTagged = (path: string, tag: string | undefined) =>
  service.send(path, tag === undefined ? {} : { headers: { 'if-none-match': tag } })

test('a response of any size has an ETag, and a client that sends it gets 304', async () => {
  const { status, headers } = await fetchTagged('/notes', undefined)
  expect(status).toBe(200)
  expect(headers.vary).toBe('Accept, Authorization, Prefer, Range, Accept-Profile')
  const again = await fetchTagged('/notes', `"another, tag", W/${headers.etag}`)
  expect([again.status, again.text, again.headers.etag]).toEqual([304, '', headers.etag])
  expect(again.headers['content-location']).toBe('/notes')
  expect(again.headers['content-type']).toBeUndefined()
  const csv = await service.send('/notes', { headers: { accept: 'text/csv', 'if-none-match': headers.etag ?? '' } })
  expect(csv.status).toBe(200)
  await postgres.run(`UPDATE api.notes SET content = 'y' WHERE id = 2000`)
  expect((await fetchTagged('/notes', headers.etag)).status).toBe(200)
})

test('an ETag set by a function takes precedence', async () => {
  expect((await fetchTagged('/rpc/own', '"6"')).headers.etag).toBe('W/"7"')
  const { status, headers } = await fetchTagged('/rpc/own', '"7"')
  expect([status, headers['cache-control']]).toEqual([304, 'max-age=5'])
})

test('writes, errors and responses without a body have no ETag', async () => {
  const patched = await service.send('/notes?id=eq.1', { method: 'PATCH', body: '{"content":"z"}' })
  expect([patched.status, patched.headers.etag, patched.headers.vary]).toEqual([204, undefined, undefined])
  expect((await fetchTagged('/nothing', '*')).status).toBe(404)
  expect((await service.send('/notes', { method: 'HEAD' })).headers.etag).toBeUndefined()
  expect((await fetchTagged('/notes', '*')).status).toBe(304)
})

test('the ETag depends on status, type, range and bytes', () => {
  const answer = { status: 200, headers: [['Content-Type', 'text/csv']] as const, body: 'a' }
  const tagOf = (more: object) => tagged({ ...answer, ...more }, undefined).headers.at(-1)?.[1]
  const tags = [{}, { status: 206 }, { headers: [['Content-Type', 'text/plain']] }, { body: 'b' }].map(tagOf)
  expect(new Set(tags).size).toBe(4)
})

test('the admin server does not show the configuration by default', async () => {
  expect((await sendRequest(service.adminPort, '/config')).status).toBe(404)
})
