/** Function calls: requests, and the SQL that selects their rows. */
import { expect, test } from 'vitest'
import { routine } from '../testing/openapi.ts'
import { own, plannedWithoutBody, sampleCache } from '../testing/schema-cache.ts'
import { answering, type RequestOptions, rendered, shownValues } from '../testing/statements.ts'
import { render } from './index.ts'

type Called = [request: string, options: RequestOptions, call: string, values: unknown[]]

const columns = ['id', 'name', 'client_id', 'data', 'tags', 'color', 'search'].map(name =>
  name === 'color' ? '"test"."color_to_json"("projects"."color") AS "color"' : `"projects"."${name}" AS "${name}"`,
)
const rows = `SELECT ${columns.join(', ')} FROM rst_call AS "projects"`
const scalar = { rows: '1', body: "coalesce(string_agg(to_json(rst_rows.pgrst_scalar)::text, ','), 'null')" }

test.each<Called>([
  [
    'GET /rpc/add?a=1&b=2',
    {},
    'SELECT "test"."add"("a" := $1::integer, "b" := $2::integer) AS pgrst_scalar',
    ['1', '2'],
  ],
  ['GET /rpc/add?a=1', {}, 'SELECT "test"."add"("a" := $1::integer) AS pgrst_scalar', ['1']],
  [
    'GET /rpc/join?words=a&words=b"c\\d',
    {},
    'SELECT "test"."join"(VARIADIC "words" := $1::text[]) AS pgrst_scalar',
    ['{"a","b\\"c\\\\d"}'],
  ],
  [
    'POST /rpc/join',
    { body: 'words=a&words=b"c\\d', type: 'application/x-www-form-urlencoded' },
    'SELECT "test"."join"(VARIADIC "words" := $1::text[]) AS pgrst_scalar',
    ['{"a","b\\"c\\\\d"}'],
  ],
  [
    'POST /rpc/add',
    { body: '{"a":1,"b":2}' },
    'SELECT "test"."add"("a" := rst_arguments."a", "b" := rst_arguments."b") AS pgrst_scalar FROM json_to_record($1::json) AS rst_arguments("a" integer, "b" integer)',
    ['{"a":1,"b":2}'],
  ],
  [
    'POST /rpc/join',
    { body: '{"words":["a"]}' },
    'SELECT "test"."join"(VARIADIC "words" := rst_arguments."words") AS pgrst_scalar FROM json_to_record($1::json) AS rst_arguments("words" text[])',
    ['{"words":["a"]}'],
  ],
  [
    'POST /rpc/add',
    { body: 'a=1&b=2', type: 'application/x-www-form-urlencoded' },
    'SELECT "test"."add"("a" := $1::integer, "b" := $2::integer) AS pgrst_scalar',
    ['1', '2'],
  ],
  ['POST /rpc/take_json', { body: '{"x":1}' }, 'SELECT "test"."take_json"($1::json) AS pgrst_scalar', ['{"x":1}']],
  [
    'POST /rpc/take_bytes',
    { body: 'abc', type: 'application/octet-stream' },
    'SELECT "test"."take_bytes"($1::bytea) AS pgrst_scalar',
    [{ binary: 'abc' }],
  ],
])('a function that returns a value: %s %j', (request, options, call, values) => {
  const { main } = rendered(request, options)
  const name = /"test"\."(\w+)"/.exec(call)?.[1]
  const source = `SELECT "${name}".* FROM rst_call AS "${name}"`
  expect(main.text).toBe(answering(`rst_call AS (${call}), rst_source AS (${source})`, scalar))
  expect(shownValues(main.values)).toEqual(values)
})

test.each<Called>([
  ['GET /rpc/find', {}, 'SELECT rst_call.* FROM "test"."find"() AS rst_call', []],
  ['GET /rpc/find?name=a', {}, 'SELECT rst_call.* FROM "test"."find"("name" := $1::text) AS rst_call', ['a']],
  ['POST /rpc/find', { body: '{}' }, 'SELECT rst_call.* FROM "test"."find"() AS rst_call', []],
  [
    'POST /rpc/find',
    { body: '{"name":"a"}' },
    'SELECT rst_call.* FROM json_to_record($1::json) AS rst_arguments("name" text), LATERAL "test"."find"("name" := rst_arguments."name") AS rst_call',
    ['{"name":"a"}'],
  ],
])('a function that returns rows: %s %j', (request, options, call, values) => {
  const { main } = rendered(request, options)
  expect(main.text).toBe(answering(`rst_call AS (${call}), rst_source AS (${rows})`))
  expect(shownValues(main.values)).toEqual(values)
})

test('a function uses the first record of a list, and CSV columns by position', () => {
  const { main } = rendered('POST /rpc/add', { body: '[{"a":1,"b":2},{"a":3,"b":4}]' })
  expect(main.text).toContain(
    'FROM (SELECT * FROM json_to_recordset($1::json) AS rst_record("a" integer, "b" integer) LIMIT 1) AS rst_arguments',
  )
  const csv = rendered('POST /rpc/add', { body: 'b,a\n1,2', type: 'text/csv' })
  expect(csv.main.text).toContain('"test"."add"("a" := rst_arguments."1", "b" := rst_arguments."0")')
})

test('if a to-one embedding has several rows, the body is the first row', () => {
  const returns = { kind: 'composite', type: own('projects'), isAlias: false } as const
  const routines = new Map([['test', new Map([['one', [routine('one', [], { returns })]]])]])
  const answerOf = (select: string, options: RequestOptions = {}) => {
    const cache = { ...sampleCache, routines }
    const { main } = rendered(`GET /rpc/one?select=${select}`, options, { ndjsonEnabled: true }, cache)
    return /SELECT (\S+|least.*\)) AS total, 1 AS rows,.* AS updated, (.*) AS body FROM/s.exec(main.text)?.slice(1)
  }
  const only = "coalesce(string_agg(row_to_json(rst_rows)::text, ','), 'null')"
  const first = "coalesce((array_agg(row_to_json(rst_rows)::text))[1], 'null')"
  expect(answerOf('id,tasks(id)', { prefer: 'count=exact' })).toEqual(['count(*)', only])
  for (const accept of ['application/json', 'application/vnd.pgrst.object+json'])
    for (const select of ['clients(id)', '...clients(id)', 'id,newest_task(id)'])
      expect(answerOf(select, { accept })).toEqual(['NULL::int8', first])
  const [, lines] = answerOf('clients(id)', { accept: 'application/x-ndjson' }) ?? []
  expect(lines).toMatch(/^coalesce\(\(array_agg\(.*row_to_json.*\)\)\[1\], ''\)$/)
  expect(answerOf('clients(id)', { prefer: 'count=exact' })).toEqual(['least(count(*), 1)', first])
})

test("conditions apply to the function's rows", () => {
  const { main } = rendered('GET /rpc/find?name=a&select=id,clients(name)&id=eq.2&limit=3')
  expect(main.text).toBe(
    answering(
      'rst_call AS (SELECT rst_call.* FROM "test"."find"("name" := $1::text) AS rst_call), ' +
        'rst_source AS (SELECT "projects"."id" AS "id", row_to_json("projects_clients_1".*) AS "clients" FROM rst_call AS "projects" ' +
        'LEFT JOIN LATERAL (SELECT "clients_1"."name" AS "name" FROM "test"."clients" AS "clients_1" WHERE "clients_1"."id" = "projects"."client_id" OFFSET 0) AS "projects_clients_1" ON TRUE ' +
        'WHERE "projects"."id" = $2 LIMIT 3)',
    ),
  )
  expect(main.values).toEqual(['a', '2'])
})

test('a body that no argument needs is empty', () => {
  const headers = { 'content-type': 'application/octet-stream' }
  const [plan] = plannedWithoutBody('POST /rpc/take_bytes', { headers })
  const { values } = plan ? render(plan).main : { values: undefined }
  expect(values).toEqual([{ binary: Buffer.alloc(0) }])
})
