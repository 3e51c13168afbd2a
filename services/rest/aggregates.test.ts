/** Aggregates with embeddings, against a real Postgres. Rows are grouped by all other selected values. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.clients (id int PRIMARY KEY, name text);
  CREATE TABLE api.projects (id int PRIMARY KEY, name text, client_id int REFERENCES api.clients);
  CREATE TABLE api.tasks (id int PRIMARY KEY, name text, project_id int REFERENCES api.projects);
  CREATE TABLE api.lists (id int PRIMARY KEY, list int[], doc jsonb, plain json);
  INSERT INTO api.lists VALUES (1, '{1,2}', '[1, 2]', '[1, 2]'), (2, '{1,3}', '[1, 3]', '[1, 3]');
  INSERT INTO api.clients VALUES (1, 'ada'), (2, 'ada'), (3, 'bob');
  INSERT INTO api.projects VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', NULL);
  INSERT INTO api.tasks VALUES (1, 'a', 1), (2, 'a', 2);
  GRANT SELECT ON ALL TABLES IN SCHEMA api TO anon;`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-pool': 1, 'db-aggregates-enabled': true }
  service = await startService(postgres.uri('authenticator'), keys)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const rows = async (path: string): Promise<unknown> => {
  const { status, text } = await service.send(path)
  return status === 200 ? JSON.parse(text) : [status, text]
}

test('an aggregate next to a to-many spread: the spread is a grouping key', async () => {
  const found = await rows('/clients?select=name,...projects(project:name),count()&order=name')
  expect(found).toEqual([
    { name: 'ada', project: ['x'], count: 2 },
    { name: 'bob', project: [], count: 1 },
  ])
})

test('an aggregate from a spread, next to embedded rows', async () => {
  expect(await rows('/projects?select=name,tasks(name),...clients(id.sum())&order=name')).toEqual([
    { name: 'x', tasks: [{ name: 'a' }], sum: 3 },
    { name: 'y', tasks: [], sum: null },
  ])
})

test('an aggregate next to embedded rows', async () => {
  expect(await rows('/projects?select=name,tasks(name),count()&order=name')).toEqual([
    { name: 'x', tasks: [{ name: 'a' }], count: 2 },
    { name: 'y', tasks: [], count: 1 },
  ])
})

test("an aggregate next to an embedding whose alias is a column's name, wherever the column is selected", async () => {
  const project = (id: number) => ({ id, client_id: { id } })
  for (const [columns, list] of [
    ['projects(id,client_id(id),client_id)', [project(1)]],
    ['projects(...client_id(projects(id,client_id(id),client_id)))', [{ projects: [project(1)] }]],
  ] as const)
    expect(await rows(`/clients?select=${columns},count()&id=eq.1`)).toEqual([{ projects: list, count: 1 }])
})

test('a filtered aggregate that is written as a column counts the filtered rows', async () => {
  const total = async (path: string) => {
    const { text, headers } = await service.send(path, { headers: { prefer: 'count=exact' } })
    return [JSON.parse(text), headers['content-range']]
  }
  expect(await total('/clients?select=x:count')).toEqual([[{ x: 3 }], '0-0/3'])
  expect(await total('/clients?select=x:count&name=eq.nobody')).toEqual([[{ x: 0 }], '*/0'])
})

test.each([
  [
    '/lists?select=id.max(),id->1&order=list.desc',
    [
      { max: 2, id: null },
      { max: 1, id: null },
    ],
  ],
  [
    '/lists?select=id.max(),list->0&order=list.desc',
    [
      { max: 2, list: 1 },
      { max: 1, list: 1 },
    ],
  ],
  [
    '/lists?select=id.max(),doc->0&order=doc.desc',
    [
      { max: 2, doc: 1 },
      { max: 1, doc: 1 },
    ],
  ],
  [
    '/lists?select=id.max(),id:id::text&order=list.desc',
    [
      { max: 2, id: '2' },
      { max: 1, id: '1' },
    ],
  ],
])('a column selected under its own name is a grouping key, as in PostgREST: %s', async (path, expected) => {
  expect(await rows(path)).toEqual(expected)
})

test('a JSON value that has no equality operator is a grouping key', async () => {
  expect(await rows('/lists?select=count(),plain->>0')).toEqual([{ count: 2, plain: '1' }])
})
