/** Logged refusals on a real Postgres: the missing grant, or the applied policies. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../testing/client.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from '../testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE clerk; CREATE ROLE stranger; CREATE ROLE "odd ""role";
  GRANT anon, clerk, "odd ""role" TO authenticator;
  CREATE SCHEMA api; CREATE SCHEMA closed; GRANT USAGE ON SCHEMA api TO anon, clerk, "odd ""role";
  CREATE TABLE api.people (id int PRIMARY KEY, name text, email text);
  CREATE TABLE api.books (id serial PRIMARY KEY, title text, author int REFERENCES api.people);
  CREATE TABLE api.notes (owner text PRIMARY KEY, text text); ALTER TABLE api.notes ENABLE ROW LEVEL SECURITY;
  CREATE POLICY own ON api.notes FOR ALL TO anon USING (owner = current_user);
  CREATE POLICY short ON api.notes AS RESTRICTIVE FOR INSERT WITH CHECK (length(text) < 10);
  CREATE POLICY "of clerks" ON api.notes FOR INSERT TO clerk WITH CHECK (false);
  CREATE TABLE api.bare (id int PRIMARY KEY); ALTER TABLE api.bare ENABLE ROW LEVEL SECURITY;
  CREATE VIEW api.mails WITH (security_invoker = true) AS SELECT id, email FROM api.people;
  CREATE VIEW api.shelf AS SELECT * FROM api.books;
  CREATE TABLE closed.things (id int PRIMARY KEY);
  CREATE FUNCTION api.shout(word text, times int DEFAULT 1) RETURNS text LANGUAGE sql STABLE AS 'SELECT upper(word)';
  CREATE FUNCTION api.shout(words text[]) RETURNS text LANGUAGE sql STABLE AS 'SELECT words[1]';
  CREATE FUNCTION api.peek() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM closed.things';
  CREATE FUNCTION api.raise(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege USING MESSAGE = $1; END $$;
  REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA api FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION api.peek, api.raise TO anon;
  GRANT SELECT (id, name) ON api.people TO anon; GRANT INSERT (title) ON api.books TO anon; GRANT SELECT ON api.mails, api.shelf TO anon;
  GRANT ALL ON api.notes, api.bare TO anon, clerk;`

let postgres: TestPostgres
let service: TestService
const keys = { 'db-schemas': 'api, closed', 'db-anon-role': 'anon', 'jwt-secret': jwtSecret, 'log-level': 'warn' }

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), { ...keys, 'log-refusals': true })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

type Line = Record<string, unknown>
const secret = 'a value of somebody'
const json = { 'content-type': 'application/json' }

/** The log line about one refused request. */
async function lineOf(method: string, path: string, body = '', headers: Record<string, string> = {}): Promise<Line> {
  const before = service.log.length
  const answer = await service.send(path, { method, headers: { ...(body === '' ? {} : json), ...headers }, body })
  expect(JSON.parse(answer.text).code).toBe('42501')
  const lines = () => service.log.slice(before).filter(line => line.includes('a missing privilege'))
  await until(() => lines().length === 1)
  expect(lines()[0]).not.toContain(secret)
  return JSON.parse(lines()[0] ?? '')
}

const insert = JSON.stringify({ id: 1, name: secret })
test.each([
  ['GET', '/people?select=id,email', '', ['SELECT on api.people (email)']],
  ['GET', '/people', '', ['SELECT on api.people (email)']],
  ['GET', '/people?select=id&email=eq.x&order=email', '', ['SELECT on api.people (email)']],
  ['GET', '/books?select=title,people(name)', '', ['SELECT on api.books']],
  ['GET', '/shelf?select=title,people(email)', '', ['SELECT on api.people (email)']],
  ['GET', '/mails', '', ['SELECT on api.people (email)']],
  ['POST', '/people', insert, ['INSERT on api.people']],
  [
    'POST',
    '/books',
    JSON.stringify({ title: secret, author: 1 }),
    ['INSERT on api.books (author)', 'USAGE on sequence api.books_id_seq'],
  ],
  ['POST', '/books', JSON.stringify({ title: secret }), ['USAGE on sequence api.books_id_seq']],
  ['PATCH', '/people?id=eq.1', JSON.stringify({ name: secret }), ['UPDATE on api.people']],
  ['DELETE', '/people?email=eq.x', '', ['SELECT on api.people (email)', 'DELETE on api.people']],
  ['GET', '/rpc/shout?word=hello', '', ['EXECUTE on function api.shout(text,integer)']],
  ['POST', '/rpc/shout', '{"words": ["a"]}', ['EXECUTE on function api.shout(text[])']],
  ['GET', '/rpc/peek', '', ['nothing that the request names; a view, trigger or function that it reaches']],
])('for %s %s it contains the missing grant', async (method, path, body, lacks) => {
  expect(await lineOf(method, path, body)).toMatchObject({ role: 'anon', method, lacks, level: 40 })
})

test('for a schema, too', async () => {
  const line = await lineOf('GET', '/things', '', { 'accept-profile': 'closed' })
  expect(line.lacks).toEqual(['USAGE on schema closed', 'SELECT on closed.things'])
})

test('the log does not repeat text that a function raised', async () => {
  const line = await lineOf('POST', '/rpc/raise', secret, { 'content-type': 'text/plain' })
  expect(line.lacks).toHaveLength(1)
})

test('for a role that the login role cannot become', async () => {
  const authorization = `Bearer ${await tokenOf({ role: 'stranger' })}`
  const line = await lineOf('GET', '/people?select=id', '', { authorization })
  expect(line.lacks).toContain('membership in the role stranger of the login role')
})

test('for a large body that the service did not read', async () => {
  const line = await lineOf('POST', '/people', JSON.stringify({ id: 1, name: secret.repeat(10_000) }))
  expect(line.lacks).toEqual(['INSERT on api.people'])
})

test('for rows it contains the applied policies', async () => {
  const note = JSON.stringify({ owner: 'another', text: secret })
  const policies = ['api.notes: own (ALL, permissive), short (INSERT, restrictive)']
  expect(await lineOf('POST', '/notes', note)).toMatchObject({ policies })
  expect(await lineOf('POST', '/bare', '{"id": 1}')).toMatchObject({
    policies: ['api.bare: no policy for the role, so no row'],
  })
  const authorization = `Bearer ${await tokenOf({ role: 'clerk' })}`
  expect(await lineOf('POST', '/notes', note, { authorization })).toMatchObject({
    policies: ['api.notes: of clerks (INSERT, permissive), short (INSERT, restrictive)'],
  })
})

test('names are quoted as in SQL', async () => {
  const authorization = `Bearer ${await tokenOf({ role: 'odd "role' })}`
  expect(await lineOf('GET', '/people', '', { authorization })).toMatchObject({
    role: 'odd "role',
    lacks: ['SELECT on api.people'],
  })
})

test('the service diagnoses nothing unless the configuration enables it', async () => {
  const other = await startService(postgres.uri('authenticator'), keys)
  expect((await other.send('/people')).status).toBe(400)
  await other.stop()
  expect(other.log.filter(line => line.includes('a missing privilege'))).toEqual([])
})
