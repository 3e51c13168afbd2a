/**
 * Descriptions of a real schema. TypeScript's compiler, the client that uses the types, and an OpenAPI validator check
 * them.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from '../testing/service.ts'

const schema = `
  CREATE ROLE anon; CREATE ROLE author; CREATE SCHEMA api; CREATE SCHEMA "odd one"; CREATE SCHEMA hidden;
  GRANT USAGE ON SCHEMA api, "odd one" TO anon, author;
  COMMENT ON SCHEMA api IS E'A library\nWith books.';
  CREATE TYPE api.mood AS ENUM ('glad', 'it''s "so"');
  CREATE TYPE hidden.size AS ENUM ('small', 'large');
  CREATE TYPE api.place AS (street text, at hidden.size);
  CREATE DOMAIN api.email AS text CHECK (VALUE LIKE '%@%');
  CREATE DOMAIN api.color AS int;
  CREATE FUNCTION api.color_to_json(api.color) RETURNS json LANGUAGE sql IMMUTABLE AS 'SELECT to_json($1::int)';
  CREATE CAST (api.color AS json) WITH FUNCTION api.color_to_json(api.color) AS IMPLICIT;
  CREATE TABLE api.people (id int PRIMARY KEY, name text NOT NULL, email api.email, mood api.mood DEFAULT 'glad', tags text[] NOT NULL DEFAULT '{}',
    moods api.mood[], home api.place, size hidden.size);
  COMMENT ON TABLE api.people IS E'Who writes\n\nand reads */ all day';
  CREATE TABLE api.books (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title varchar(100) NOT NULL, author_id int NOT NULL REFERENCES api.people,
    price numeric(8,2), printed timestamptz, facts jsonb, paint api.color, short text GENERATED ALWAYS AS (left(title, 3)) STORED);
  CREATE TABLE api.covers (book_id bigint PRIMARY KEY REFERENCES api.books, picture bytea NOT NULL);
  CREATE TABLE api.loans (book_id bigint REFERENCES api.books, reader_id int REFERENCES api.people, PRIMARY KEY (book_id, reader_id));
  CREATE TYPE api.plan AS ENUM ('merger'); CREATE TABLE api.secrets (id int PRIMARY KEY, plan api.plan);
  CREATE VIEW api.titles AS SELECT id, title, author_id FROM api.books;
  CREATE TABLE "odd one"."Tä{b}/le 1" ("we ird"":" int PRIMARY KEY, "*/" text, "class" bool, "${'$'}{x}" "char");
  CREATE FUNCTION api.add(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + b';
  CREATE FUNCTION api.add(words text[]) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT words[1]';
  CREATE FUNCTION api.now_there() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()';
  CREATE FUNCTION api.books_of(author int) RETURNS SETOF api.books LANGUAGE sql STABLE AS 'SELECT * FROM api.books WHERE author_id = author';
  CREATE FUNCTION api.person(id int) RETURNS api.people LANGUAGE sql STABLE AS 'SELECT * FROM api.people p WHERE p.id = person.id';
  CREATE FUNCTION api.counts() RETURNS TABLE (name text, books bigint) LANGUAGE sql STABLE AS $$ SELECT 'a', 1::bigint $$;
  CREATE FUNCTION api.moods() RETURNS SETOF api.mood LANGUAGE sql STABLE AS $$ SELECT 'glad'::api.mood $$;
  CREATE FUNCTION api.forget(id int) RETURNS void LANGUAGE sql AS 'DELETE FROM api.loans';
  CREATE FUNCTION api.take(json) RETURNS json LANGUAGE sql AS 'SELECT $1';
  CREATE FUNCTION api.sum_up(VARIADIC numbers int[]) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT sum(n) FROM unnest(numbers) n';
  CREATE FUNCTION api.readers(api.books) RETURNS SETOF api.people LANGUAGE sql STABLE AS 'SELECT * FROM api.people';
  CREATE FUNCTION api.initial(api.people) RETURNS "char" LANGUAGE sql STABLE AS 'SELECT left($1.name, 1)::"char"';
  CREATE FUNCTION api.feels(api.people) RETURNS api.mood LANGUAGE sql STABLE AS 'SELECT $1.mood';
  CREATE FUNCTION api.whispers(api.people) RETURNS text LANGUAGE sql STABLE AS 'SELECT $1.name';
  REVOKE EXECUTE ON FUNCTION api.whispers(api.people) FROM public;
  CREATE FUNCTION api.divided(a int, OUT whole int, OUT rest int) LANGUAGE sql IMMUTABLE AS 'SELECT a / 2, a % 2';
  GRANT SELECT, INSERT, UPDATE, DELETE ON api.people, api.books, api.covers, api.loans, api.titles, "odd one"."Tä{b}/le 1" TO author;
  GRANT SELECT ON api.books TO anon; GRANT anon, author TO postgres;
  REVOKE EXECUTE ON FUNCTION api.moods() FROM public; GRANT EXECUTE ON FUNCTION api.moods() TO author;`

/** Code that users write with the types. \`@ts-expect-error\` marks where the compiler must report an error. */
const program = `
import { PostgrestClient } from '@supabase/postgrest-js'
import type { Database } from './database.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function same<A, B>(_: Same<A, B>): void {}

const api = new PostgrestClient<Database, { PostgrestVersion: '14' }, 'api'>('http://127.0.0.1', { schema: 'api' })

const books = await api.from('books').select('id, title, price, people(name, mood), covers(picture)')
if (books.data !== null) {
  const [book] = books.data
  if (book !== undefined) {
    same<typeof book.id, number>(true)
    same<typeof book.price, number | null>(true)
    same<typeof book.people.name, string>(true)
    same<typeof book.people.mood, 'glad' | 'it\\'s "so"' | null>(true)
    same<typeof book.covers, { picture: string } | null>(true)
  }
}
const people = await api.from('people').select('home, size, tags, moods, books(title), loans(books(title))').single()
if (people.data !== null) {
  same<typeof people.data.books, { title: string }[]>(true)
  same<typeof people.data.loans, { books: { title: string } }[]>(true)
  same<typeof people.data.tags, string[]>(true)
  same<typeof people.data.size, 'small' | 'large' | null>(true)
  const street: string | null | undefined = people.data.home?.street
  void street
}
// @ts-expect-error no such column
void (await api.from('books').select('nothing')).data?.[0]?.nothing.length
const embedded = await api.from('books').select('title, readers(name)')
if (embedded.data !== null) same<typeof embedded.data, { title: string; readers: { name: string }[] }[]>(true)

const computed = await api.from('people').select('initial, feels').eq('initial', 'A').order('feels')
if (computed.data !== null) same<typeof computed.data, { initial: string | null; feels: 'glad' | 'it\\'s "so"' | null }[]>(true)
// @ts-expect-error the role may not execute it
await api.from('people').select('id').eq('whispers', 'A')

await api.from('books').insert({ title: 'One', author_id: 1, facts: { pages: [1, null] } })
await api.from('books').insert([{ title: 'One', author_id: 1, price: null }])
// @ts-expect-error a book has a title
await api.from('books').insert({ author_id: 1 })
// @ts-expect-error the database makes the id
await api.from('books').insert({ id: 1, title: 'One', author_id: 1 })
await api.from('people').update({ mood: 'glad' }).eq('id', 1)
// @ts-expect-error no such mood
await api.from('people').update({ mood: 'sad' })
await api.from('people').upsert({ id: 1, name: 'Ada', email: 'a@b' })

const sum = await api.rpc('add', { a: 1 })
if (sum.data !== null) same<typeof sum.data, number>(true)
const word = await api.rpc('add', { words: ['a'] })
if (word.data !== null) same<typeof word.data, string>(true)
// @ts-expect-error a number
await api.rpc('books_of', { author: 'Ada' })
const byAuthor = await api.rpc('books_of', { author: 1 }).select('title, people(name)')
if (byAuthor.data !== null) same<typeof byAuthor.data, { title: string; people: { name: string } }[]>(true)
const person = await api.rpc('person', { id: 1 })
if (person.data !== null) same<typeof person.data.name, string>(true)
const counts = await api.rpc('counts')
if (counts.data !== null) same<typeof counts.data, { name: string; books: number }[]>(true)
const divided = await api.rpc('divided', { a: 1 })
if (divided.data !== null) same<typeof divided.data, { whole: number; rest: number }>(true)
const moods = await api.rpc('moods')
if (moods.data !== null) same<typeof moods.data, ('glad' | 'it\\'s "so"')[]>(true)
await api.rpc('forget', { id: 1 })
await api.rpc('take', { anything: [1] })
await api.rpc('sum_up', { numbers: [1, 2] })

const titles = await api.from('titles').select('title, people(name)')
if (titles.data !== null) same<typeof titles.data, { title: string | null; people: { name: string } | null }[]>(true)
const odd = await api.schema('odd one').from('Tä{b}/le 1').select()
if (odd.data !== null) {
  const [first] = odd.data
  if (first !== undefined) {
    same<(typeof first)['we ird":'], number>(true)
    same<(typeof first)['\${x}'], string | null>(true)
  }
}
// @ts-expect-error the role may not see it
void api.from('secrets')
`

const root = fileURLToPath(new URL('../../../', import.meta.url))
const keys = {
  'db-schemas': 'api, odd one',
  'db-anon-role': 'anon',
  'jwt-secret': jwtSecret,
  'openapi-3-1-enabled': true,
  'openapi-typescript-enabled': true,
  'ndjson-enabled': true,
  'keyset-parameter': 'after',
  'batch-path': '/batch',
}

let postgres: TestPostgres
let service: TestService
let headers: Record<string, string>
let directory: string

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-types-'))
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('postgres'), keys)
  headers = { authorization: `Bearer ${await tokenOf({ role: 'author' })}` }
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
  rmSync(directory, { recursive: true, force: true })
})

const typescript = async (more: Record<string, string> = headers) =>
  await service.send('/', { headers: { ...more, accept: 'application/typescript' } })
const openApi = async (more: Record<string, string> = {}) =>
  await service.send('/', { headers: { ...headers, ...more, accept: 'application/openapi+json;version=3.1' } })

describe('TypeScript types', () => {
  test('describe what a client reads, writes and calls', async () => {
    const answer = await typescript()
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'application/typescript; charset=utf-8' } })
    writeFileSync(join(directory, 'database.ts'), answer.text)
    writeFileSync(join(directory, 'program.ts'), program)
    symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
    const options = { strict: true, noEmit: true, noUncheckedIndexedAccess: true, allowImportingTsExtensions: true }
    const modules = { module: 'nodenext', target: 'es2024', lib: ['es2024', 'dom'], types: [], skipLibCheck: true }
    const compilerOptions = { ...options, ...modules }
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
    writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
    const compiled = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', directory], { encoding: 'utf8' })
    expect(compiled.stdout).toBe('')
    expect(compiled.status).toBe(0)
  })

  test('include only objects that the role may access', async () => {
    const { text } = await typescript({})
    expect(text).toContain('books: {')
    expect(text).not.toContain('people: {')
    // Types that only hidden objects use, and types that no object uses, are hidden, too.
    for (const name of ['mood', 'glad', 'place', 'street', 'plan', 'merger']) expect(text).not.toContain(name)
    const own = (await typescript()).text
    expect(own).toContain(`mood: "glad" | "it's \\"so\\""`)
    expect(own).not.toContain('secrets')
    expect(own).not.toContain('merger')
  })
})

describe('the OpenAPI 3.1 document', () => {
  test.each(['api', 'odd one'])('is valid for the schema %s', async profile => {
    const answer = await openApi({ 'accept-profile': profile })
    expect(answer.headers['content-type']).toBe('application/openapi+json; version=3.1; charset=utf-8')
    // The service cannot know the owner and the license of the database.
    const config = await createConfig({ extends: ['recommended'], rules: { 'info-license': 'off' } })
    const problems = await lintFromString({ source: answer.text, config })
    expect(problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`)).toEqual([])
  })

  test('describes reads, writes, calls and results', async () => {
    const document = JSON.parse((await openApi()).text)
    const { schemas } = document.components
    expect(document.info).toMatchObject({ title: 'A library', description: 'With books.' })
    expect(Object.keys(document.paths)).toContain('/books')
    expect(Object.keys(document.paths)).not.toContain('/secrets')
    expect(Object.keys(document.paths)).toContain('/batch')
    const readBy = document.paths['/books'].get.parameters.map(({ $ref }: { $ref: string }) => $ref)
    expect(readBy).toContain('#/components/parameters/cursor..parameter')
    expect(schemas.people.properties).toMatchObject({
      id: { type: 'integer', format: 'int32', description: 'Part of the primary key.' },
      mood: { type: ['string', 'null'], enum: ['glad', `it's "so"`, null], default: 'glad' },
      tags: { type: 'array', items: { type: ['string', 'null'] } },
      home: { type: ['object', 'null'], properties: { at: { enum: ['small', 'large', null] } } },
    })
    expect(schemas['books..insert'].required).toEqual(['title', 'author_id'])
    expect(Object.keys(schemas['books..insert'].properties)).not.toContain('id')
    expect(schemas.books.properties.title).toMatchObject({ type: 'string', maxLength: 100 })
    expect(schemas.books.properties.paint).toEqual({})
    const returned = (name: string) =>
      document.paths[`/rpc/${name}`].post.responses[200]?.content['application/json'].schema
    expect(returned('add')).toMatchObject({ anyOf: [{ type: 'string' }, { type: 'integer' }] })
    expect(returned('books_of')).toEqual({ type: 'array', items: { $ref: '#/components/schemas/books' } })
    expect(returned('counts').items.properties).toMatchObject({ name: { type: 'string' }, books: { format: 'int64' } })
    expect(document.paths['/rpc/forget']).toMatchObject({ post: { responses: { 204: {} } } })
    expect(document.paths['/rpc/forget'].get).toBeUndefined()
  })
})

test("a request for neither format gets PostgREST's response, whether the formats are enabled or not", async () => {
  const off = { ...keys, 'openapi-3-1-enabled': false, 'openapi-typescript-enabled': false }
  const plain = await startService(postgres.uri('postgres'), off)
  for (const accept of ['*/*', 'application/openapi+json', 'application/json;q=0.5, text/html', 'text/html']) {
    const [one, other] = [
      await service.send('/', { headers: { accept } }),
      await plain.send('/', { headers: { accept } }),
    ]
    expect(one.status).toBe(accept === 'text/html' ? 406 : 200)
    expect(one.headers['content-type']).toBe(other.headers['content-type'])
    expect(one.text).toBe(other.text.replaceAll(`:${plain.port}`, `:${service.port}`))
  }
  const versioned = await plain.send('/', { headers: { accept: 'application/openapi+json;version=3.1' } })
  expect(JSON.parse(versioned.text).swagger).toBe('2.0')
  expect((await plain.send('/', { headers: { accept: 'application/typescript' } })).status).toBe(406)
  await plain.stop()
})
