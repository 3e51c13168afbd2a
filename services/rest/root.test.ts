/**
 * Cases that the differential test's generated requests omit: the root with and without OpenAPI, the root's timings,
 * and UTF-8 in functions.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.people (id int PRIMARY KEY, name text);
  CREATE TABLE api.passports (number int PRIMARY KEY, holder int UNIQUE REFERENCES api.people);
  INSERT INTO api.people VALUES (1, 'Ada'); INSERT INTO api.passports VALUES (7, 1);
  CREATE FUNCTION api.say(name text, value text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('response.headers', json_build_array(json_build_object(name, value))::text, true);
    RETURN current_setting('request.cookies', true)::json ->> 'c'; END $$;
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;`

const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-pool': 1, 'server-timing-enabled': true }
let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), keys)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const timed = async (path: string, method = 'GET'): Promise<string[]> => {
  const { headers } = await service.send(path, { method })
  return String(headers['server-timing'])
    .split(', ')
    .map(part => part.replace(/;dur=[0-9]+\.[0-9]{3}$/, ''))
}

test('the root reports timings of the same parts as a relation', async () => {
  const parts = ['jwt', 'parse', 'plan', 'transaction', 'response']
  for (const path of ['/', '/people'])
    for (const method of ['GET', 'HEAD']) expect(await timed(path, method)).toEqual(parts)
  expect(await timed('/', 'OPTIONS')).toEqual(['jwt', 'parse', 'response'])
})

test('without OpenAPI, the root does not exist, and all other paths exist', async () => {
  const bare = await startService(postgres.uri('authenticator'), { ...keys, 'openapi-mode': 'disabled' })
  try {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'DELETE'])
      expect(await bare.send('/', { method })).toMatchObject({
        status: 404,
        headers: { 'proxy-status': 'espalier-rest; error=RST126' },
      })
    expect((await bare.send('/people')).status).toBe(200)
  } finally {
    await bare.stop()
  }
})

test('a column can be the hint of a one-to-one relationship, from either side', async () => {
  const answers = ['/people?select=passports!holder(number)', '/passports?select=people!holder(name),holder(name)']
  const [people, passports] = await Promise.all(answers.map(async path => JSON.parse((await service.send(path)).text)))
  expect(people).toEqual([{ passports: { number: 7 } }])
  expect(passports).toEqual([{ people: { name: 'Ada' }, holder: { name: 'Ada' } }])
})

test('a function reads cookies and sets headers in UTF-8', async () => {
  const bytes = (text: string) => Buffer.from(text).toString('latin1')
  const path = `/rpc/say?name=X-Said&value=${encodeURIComponent('grüß €')}`
  // GET may call a function that does not write.
  const { status, text, headers } = await service.send(path, { headers: { cookie: bytes('a=1; c=süß') } })
  expect([status, text, headers['x-said']]).toEqual([200, '"süß"', bytes('grüß €')])
})
