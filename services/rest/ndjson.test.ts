/** Rows as lines of JSON: each line is one value, whatever the row contains. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startService, type TestService } from './testing/service.ts'

const schema = `
  CREATE ROLE anon; CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.authors (id int PRIMARY KEY, name text);
  CREATE TABLE api.books (id int PRIMARY KEY, author_id int REFERENCES api.authors, facts json);
  INSERT INTO api.authors VALUES (1, E'A\\nda'), (2, NULL);
  INSERT INTO api.books VALUES (1, 1, E'{"a":\\r\\n 1}'), (2, 1, NULL);
  GRANT ALL ON ALL TABLES IN SCHEMA api TO anon;
  CREATE FUNCTION api.numbers() RETURNS SETOF int LANGUAGE sql STABLE AS 'VALUES (1), (NULL), (3)';
  CREATE FUNCTION api.one() RETURNS api.authors LANGUAGE sql STABLE AS 'SELECT * FROM api.authors WHERE id = 1';`

let postgres: TestPostgres
let service: TestService
const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'ndjson-enabled': true }

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('postgres'), keys)
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const headers = { accept: 'application/x-ndjson' }

test.each([
  [
    '/authors?order=id',
    [
      { id: 1, name: 'A\nda' },
      { id: 2, name: null },
    ],
  ],
  [
    '/authors?order=id&select=books(id,facts)',
    [
      {
        books: [
          { id: 1, facts: { a: 1 } },
          { id: 2, facts: null },
        ],
      },
      { books: [] },
    ],
  ],
  ['/authors?id=eq.3', []],
  ['/rpc/numbers', [1, null, 3]],
  ['/rpc/one', [{ id: 1, name: 'A\nda' }]],
])('%s', async (path, rows) => {
  const answer = await service.send(path, { headers })
  expect(answer).toMatchObject({ status: 200, headers: { 'content-type': 'application/x-ndjson' } })
  expect(answer.text === '' || answer.text.endsWith('\n')).toBe(true)
  expect(
    answer.text
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line)),
  ).toEqual(rows)
})

test('the rows of a write are returned as lines, too', async () => {
  const answer = await service.send('/authors', {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', prefer: 'return=representation, tx=rollback' },
    body: '[{"id": 8}, {"id": 9}]',
  })
  expect(answer).toMatchObject({ status: 201, text: '{"id":8,"name":null}\n{"id":9,"name":null}\n' })
})

test('rows as lines are unavailable unless the configuration enables them', async () => {
  const other = await startService(postgres.uri('postgres'), { ...keys, 'ndjson-enabled': false })
  expect((await other.send('/authors', { headers })).status).toBe(406)
  await other.stop()
})
