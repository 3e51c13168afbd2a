/** Embeddings against a real Postgres. Names, counts and statuses equal those of PostgREST 12.0.2. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Answer } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; CREATE SCHEMA other; GRANT USAGE ON SCHEMA api, other TO anon;
  CREATE TABLE api.clients (id int PRIMARY KEY, name text);
  CREATE TABLE api.projects (id int PRIMARY KEY, name text, client_id int REFERENCES api.clients);
  CREATE FUNCTION api.computed_clients(api.projects) RETURNS SETOF api.clients ROWS 1 STABLE LANGUAGE sql AS
    'SELECT * FROM api.clients WHERE id = $1.client_id';
  CREATE FUNCTION api.computed_projects(api.clients) RETURNS SETOF api.projects STABLE LANGUAGE sql AS
    'SELECT * FROM api.projects WHERE client_id = $1.id';
  CREATE TABLE api.tasks (id int PRIMARY KEY, project_id int REFERENCES api.projects);
  CREATE VIEW api.client_projects AS SELECT c.id AS client, p.id AS project FROM api.clients c JOIN api.projects p ON p.client_id = c.id;
  CREATE FUNCTION api.one_project(id int) RETURNS api.projects STABLE LANGUAGE sql AS 'SELECT * FROM api.projects p WHERE p.id = one_project.id';
  CREATE FUNCTION api.any_client(api.projects) RETURNS SETOF api.clients ROWS 1 STABLE LANGUAGE sql AS 'SELECT * FROM api.clients ORDER BY id';
  CREATE FUNCTION other.root() RETURNS text STABLE LANGUAGE sql AS $$SELECT 'root'$$;
  INSERT INTO api.clients VALUES (1, 'Microsoft'), (2, 'Apple');
  INSERT INTO api.projects VALUES (1, 'Windows 7', 1), (2, 'Windows 10', 1), (3, 'IOS', 2), (4, 'OSX', NULL);
  INSERT INTO api.tasks VALUES (1, 4), (2, 3), (3, 1);
  GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA api TO anon;`

const keys = { 'db-schemas': 'api, other', 'db-anon-role': 'anon', 'db-pool': 1, 'db-tx-end': 'rollback' }
let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), { ...keys, 'db-root-spec': 'other.root' })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const get = (path: string, prefer = 'count=exact'): Promise<Answer> => service.send(path, { headers: { prefer } })

test.each([
  ['/projects?select=id,clients!id(name)&id=eq.1', [{ id: 1, clients: { name: 'Microsoft' } }]],
  ['/clients?select=id,projects!id(id)&id=eq.2', [{ id: 2, projects: [{ id: 3 }] }]],
])('a hint may be the column that a key references: %s', async (path, expected) => {
  const { status, text } = await get(path)
  expect([status, JSON.parse(text)]).toEqual([200, expected])
})

test.each([
  ['/projects?select=projects:id,computed_clients!inner(name)&limit=1', 206, '0-0/3'],
  ['/projects?select=projects:computed_clients!inner(name)&limit=1', 206, '0-0/3'],
  ['/projects?select=id,a:computed_clients!inner(projects:name),b:computed_clients!inner(id)&limit=1', 206, '0-0/3'],
  ['/projects?select=projects_computed_clients_1:id,computed_clients(name)&computed_clients=is.null', 200, '0-0/1'],
  ['/projects?select=projects_clients_1:id,clients(name)&clients=not.is.null&limit=2', 206, '0-1/3'],
  ['/clients?select=clients:name,computed_projects!inner(id)&limit=1', 206, '0-0/2'],
])(
  "rows are counted, although a key of the result has the same name as the rows' alias: %s",
  async (path, status, range) => {
    const answer = await get(path)
    expect([answer.status, answer.headers['content-range']], answer.text).toEqual([status, range])
  },
)

test('the response has the same rows if the service limits the rows of a response', async () => {
  const capped = await startService(postgres.uri('authenticator'), { ...keys, 'db-max-rows': 1000 })
  try {
    const path = '/projects?select=projects:id,computed_clients!inner(name)'
    const { status, headers } = await capped.send(path, { headers: { prefer: 'count=exact' } })
    expect([status, headers['content-range']]).toEqual([200, '0-2/3'])
  } finally {
    await capped.stop()
  }
})

test.each([
  ['client_projects(client),id', { client_projects: { client: 1 }, id: 1 }],
  ['client_projects!inner(client)', { client_projects: { client: 1 } }],
  ['...client_projects(client),id', { client: 1, id: 1 }],
  ['any_client(id),id', { any_client: { id: 1 }, id: 1 }],
])('a function returns one row, although its embedding has several rows for it: %s', async (select, expected) => {
  for (const accept of ['application/json', 'application/vnd.pgrst.object+json;nulls=stripped']) {
    const answer = await service.send(`/rpc/one_project?id=1&select=${select}`, {
      headers: { accept, prefer: 'count=exact' },
    })
    expect([answer.status, answer.headers['content-range'], JSON.parse(answer.text)]).toEqual([200, '0-0/1', expected])
  }
  const none = await get(`/rpc/one_project?id=1&select=${select}&id=eq.9`)
  expect([none.status, none.text]).toEqual([200, 'null'])
})

const project = (id: number) => ({ id, name: 'x', client_id: 1 })
test.each([
  [[project(77)], 201],
  [[project(77), project(1)], 201],
  [[project(1), project(2)], 200],
])("an upsert of %j is %i, although an embedding's filter omits the written rows", async (rows, status) => {
  const answer = await service.send('/projects?select=id,clients!inner(id)&clients.id=eq.9', {
    method: 'POST',
    headers: { prefer: 'return=representation,resolution=merge-duplicates', 'Content-Type': 'application/json' },
    body: JSON.stringify(rows),
  })
  expect([answer.status, answer.text]).toEqual([status, '[]'])
})

test('the error for disabled aggregates takes precedence over the error for to-many spreads', async () => {
  const { status, text } = await get('/clients?select=id,...projects(id.count())')
  expect([status, JSON.parse(text).code]).toEqual([400, 'RST123'])
})

test('OPTIONS finds a root function in its configured schema', async () => {
  const { status, headers } = await service.send('/', { method: 'OPTIONS' })
  expect([status, headers.allow]).toEqual([200, 'OPTIONS,GET,HEAD,POST'])
  expect((await service.send('/')).text).toBe('"root"')
})

test.each([
  'projects(client_id(name))&order=projects(client_id)',
  '...projects(client_id(name))&order=projects(client_id)',
  'projects(clients(name))&order=projects(clients)',
  'projects(clients(name))&order=projects(clients->name)',
  'projects(...clients(it:projects(id)))&order=projects(it)',
])('rows are ordered by an embedding of an embedding: %s', async query => {
  const { status, text } = await get(`/tasks?select=id,${query}`)
  const rows: { id: number }[] = JSON.parse(text)
  expect([status, rows.map?.(({ id }) => id)], text).toEqual([200, [2, 3, 1]])
})
