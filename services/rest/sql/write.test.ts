/** Writes: requests, and the statement of each request. */
import { describe, expect, test } from 'vitest'
import { answering, arrayOfRows, type RequestOptions, rendered, settings, shownValues } from '../testing/statements.ts'

type Written = [request: string, options: RequestOptions, statement: string, values: unknown[]]
const representation = 'return=representation'
/** The main statement after a write whose rows are not returned. */
const nothing = (updated: string) => ({
  text: `SELECT NULL::int8 AS total, NULL::int8 AS rows, NULL::text[] AS location, ${settings}, ${updated} AS updated, '' AS body`,
  values: [],
})
/** Whether existing rows are counted. They are counted for PUT, and for merging upserts with a key. */
const hasUpdates = ({ prefer = '' }: RequestOptions, request: string) =>
  (request.startsWith('PUT ') || prefer.includes('merge-duplicates')) && !request.includes('/keyless')
const countsUpdates = "nullif(current_setting('rst.updated', true), '')"

test.each<Written>([
  [
    'POST /tasks',
    { body: '{"id":1,"name":"a"}' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_record($1::json) AS rst_body("id" integer, "name" text)',
    ['{"id":1,"name":"a"}'],
  ],
  [
    'POST /tasks',
    { body: '[{"id":1,"name":"a"}]' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_recordset($1::json) AS rst_body("id" integer, "name" text)',
    ['[{"id":1,"name":"a"}]'],
  ],
  [
    'POST /tasks?columns=id,name',
    { body: '[{"id":1,"x":2}]' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_recordset($1::json) AS rst_body("id" integer, "name" text)',
    ['[{"id":1,"x":2}]'],
  ],
  [
    'POST /tasks',
    { body: '{}' },
    'INSERT INTO "test"."tasks" AS "tasks" SELECT  FROM (SELECT $1::json) AS rst_body',
    ['{}'],
  ],
  [
    'POST /tasks',
    { body: '[{},{}]' },
    'INSERT INTO "test"."tasks" AS "tasks" SELECT  FROM json_array_elements($1::json) AS rst_body',
    ['[{},{}]'],
  ],
  [
    'POST /tasks',
    { body: 'id,name\n1,a', type: 'text/csv' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM LATERAL (SELECT rst_record."0" AS "id", rst_record."1" AS "name" FROM json_to_recordset($1::json) AS rst_record("0" integer, "1" text)) AS rst_body',
    ['[{"0":"1","1":"a"}]'],
  ],
  [
    'POST /tasks?columns=name,project_id',
    { body: 'id,name\n1,a', type: 'text/csv' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM LATERAL (SELECT rst_record."0" AS "id", rst_record."1" AS "name" FROM json_to_recordset($1::json) AS rst_record("0" integer, "1" text)) AS rst_body',
    ['[{"0":"1","1":"a"}]'],
  ],
  [
    'POST /projects',
    { body: '{"color":"red"}' },
    'INSERT INTO "test"."projects" AS "projects" ("color") SELECT "test"."color_from_json"(rst_body."color") FROM json_to_record($1::json) AS rst_body("color" json)',
    ['{"color":"red"}'],
  ],
  [
    'POST /projects',
    { prefer: 'missing=default', body: '[{"id":1,"name":"a","color":"red"}]' },
    `INSERT INTO "test"."projects" AS "projects" ("color", "id", "name") SELECT "test"."color_from_json"(rst_body."color"), rst_body."id", CASE WHEN (rst_element.value -> $2) IS NULL THEN 'new'::text ELSE rst_body."name" END FROM json_array_elements($1::json) AS rst_element(value), json_to_record(rst_element.value) AS rst_body("color" json, "id" integer, "name" text)`,
    ['[{"id":1,"name":"a","color":"red"}]', 'name'],
  ],
  [
    'POST /projects',
    { prefer: 'missing=default', body: '{"name":"a"}' },
    `INSERT INTO "test"."projects" AS "projects" ("name") SELECT CASE WHEN (rst_element.value -> $2) IS NULL THEN 'new'::text ELSE rst_body."name" END FROM (SELECT $1::json) AS rst_element(value), json_to_record(rst_element.value) AS rst_body("name" text)`,
    ['{"name":"a"}', 'name'],
  ],
  [
    'POST /tasks',
    { prefer: 'resolution=merge-duplicates', body: '[{"id":1,"name":"a"}]' },
    `INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_recordset($1::json) AS rst_body("id" integer, "name" text) ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id", "name" = EXCLUDED."name" WHERE set_config('rst.updated', (coalesce(nullif(current_setting('rst.updated', true), ''), '0')::int + 1)::text, true) <> ''`,
    ['[{"id":1,"name":"a"}]'],
  ],
  [
    'POST /tasks',
    { prefer: 'resolution=ignore-duplicates', body: '[{"id":1,"name":"a"}]' },
    'INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_recordset($1::json) AS rst_body("id" integer, "name" text) ON CONFLICT ("id") DO NOTHING',
    ['[{"id":1,"name":"a"}]'],
  ],
  [
    'POST /tasks?on_conflict=name,project_id',
    { prefer: 'resolution=merge-duplicates', body: '[{"id":1}]' },
    `INSERT INTO "test"."tasks" AS "tasks" ("id") SELECT rst_body."id" FROM json_to_recordset($1::json) AS rst_body("id" integer) ON CONFLICT ("name", "project_id") DO UPDATE SET "id" = EXCLUDED."id" WHERE set_config('rst.updated', (coalesce(nullif(current_setting('rst.updated', true), ''), '0')::int + 1)::text, true) <> ''`,
    ['[{"id":1}]'],
  ],
  [
    'POST /tasks',
    { prefer: 'resolution=merge-duplicates', body: '[{}]' },
    'INSERT INTO "test"."tasks" AS "tasks" SELECT  FROM json_array_elements($1::json) AS rst_body ON CONFLICT ("id") DO NOTHING',
    ['[{}]'],
  ],
  [
    'POST /keyless',
    { prefer: 'resolution=merge-duplicates', body: '[{"a":1}]' },
    'INSERT INTO "test"."keyless" AS "keyless" ("a") SELECT rst_body."a" FROM json_to_recordset($1::json) AS rst_body("a" integer)',
    ['[{"a":1}]'],
  ],
  [
    'PUT /tasks?id=eq.1',
    { body: '{"id":1,"name":"a"}' },
    `INSERT INTO "test"."tasks" AS "tasks" ("id", "name") SELECT rst_body."id", rst_body."name" FROM json_to_record($1::json) AS rst_body("id" integer, "name" text) WHERE "rst_body"."id" = $2 ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id", "name" = EXCLUDED."name" WHERE set_config('rst.updated', (coalesce(nullif(current_setting('rst.updated', true), ''), '0')::int + 1)::text, true) <> ''`,
    ['{"id":1,"name":"a"}', '1'],
  ],
  [
    'PATCH /tasks?id=eq.1&or=(name.eq.a,name.eq.b)',
    { body: '{"name":"b","project_id":2}' },
    'UPDATE "test"."tasks" AS "tasks" SET "name" = rst_values."name", "project_id" = rst_values."project_id" FROM (SELECT rst_body."name" AS "name", rst_body."project_id" AS "project_id" FROM json_to_record($1::json) AS rst_body("name" text, "project_id" integer) LIMIT 1) AS rst_values WHERE "tasks"."id" = $2 AND ("tasks"."name" = $3 OR "tasks"."name" = $4)',
    ['{"name":"b","project_id":2}', '1', 'a', 'b'],
  ],
  [
    'PATCH /tasks',
    { body: '[{"name":"b"}]' },
    'UPDATE "test"."tasks" AS "tasks" SET "name" = rst_values."name" FROM (SELECT rst_body."name" AS "name" FROM json_to_recordset($1::json) AS rst_body("name" text) LIMIT 1) AS rst_values',
    ['[{"name":"b"}]'],
  ],
  [
    'PATCH /projects?id=eq.1',
    { prefer: 'missing=default', body: '{"name":"b"}' },
    `UPDATE "test"."projects" AS "projects" SET "name" = rst_values."name" FROM (SELECT CASE WHEN (rst_element.value -> $2) IS NULL THEN 'new'::text ELSE rst_body."name" END AS "name" FROM (SELECT $1::json) AS rst_element(value), json_to_record(rst_element.value) AS rst_body("name" text) LIMIT 1) AS rst_values WHERE "projects"."id" = $3`,
    ['{"name":"b"}', 'name', '1'],
  ],
  [
    'PATCH /projects?id=eq.1',
    { body: '{"color":"red"}' },
    'UPDATE "test"."projects" AS "projects" SET "color" = rst_values."color" FROM (SELECT "test"."color_from_json"(rst_body."color") AS "color" FROM json_to_record($1::json) AS rst_body("color" json) LIMIT 1) AS rst_values WHERE "projects"."id" = $2',
    ['{"color":"red"}', '1'],
  ],
  ['PATCH /tasks?id=eq.1', { body: '{}' }, 'SELECT 1 AS "rst_nothing" FROM "test"."tasks" AS "tasks" WHERE FALSE', []],
  [
    'DELETE /tasks?id=eq.1&not.or=(name.eq.a,name.is.null)',
    {},
    'DELETE FROM "test"."tasks" AS "tasks" WHERE "tasks"."id" = $1 AND NOT ("tasks"."name" = $2 OR "tasks"."name" IS NULL)',
    ['1', 'a'],
  ],
  ['DELETE /tasks', {}, 'DELETE FROM "test"."tasks" AS "tasks"', []],
])('a write without a response body: %s %j', (request, options, statement, values) => {
  const { write, main, estimate, isExplain } = rendered(request, options)
  expect(write?.text).toBe(statement)
  expect(shownValues(write?.values ?? [])).toEqual(values)
  expect(main).toEqual(nothing(hasUpdates(options, request) ? countsUpdates : 'NULL::text'))
  expect([estimate, isExplain]).toEqual([undefined, false])
})

/** The columns that RETURNING lists, and the SELECT of the response. */
describe('the SQL of a write that returns its rows', () => {
  const representationSql = (request: string, options: RequestOptions = {}) =>
    rendered(request, { prefer: representation, ...options }).main.text
  const insert =
    'INSERT INTO "test"."tasks" AS "tasks" ("id") SELECT rst_body."id" FROM json_to_record($1::json) AS rst_body("id" integer)'
  const body = '{"id":1}'
  const answered = (written: string, shown: string, parts: Parameters<typeof answering>[1] = {}) =>
    answering(`rst_source AS (${written})`, { from: `(${shown}) AS rst_rows`, ...parts })

  test.each<[string, RequestOptions, string]>([
    ['POST /tasks', {}, answered(`${insert} RETURNING "tasks".*`, 'SELECT "tasks".* FROM rst_source AS "tasks"')],
    [
      'POST /tasks?select=name',
      {},
      answered(
        `${insert} RETURNING "tasks"."name" AS "name"`,
        'SELECT "tasks"."name" AS "name" FROM rst_source AS "tasks"',
      ),
    ],
    [
      'POST /tasks?select=',
      {},
      answered(`${insert} RETURNING "tasks".*`, 'SELECT "tasks".* FROM rst_source AS "tasks"'),
    ],
    [
      'POST /tasks?select=projects(name)&order=name',
      {},
      answered(
        `${insert} RETURNING "tasks"."project_id" AS "project_id", "tasks"."name" AS "name"`,
        'SELECT row_to_json("tasks_projects_1".*) AS "projects" FROM rst_source AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id" OFFSET 0) AS "tasks_projects_1" ON TRUE ORDER BY "tasks"."name"',
      ),
    ],
    [
      'POST /tasks?select=id',
      { prefer: `${representation},count=exact` },
      answered(`${insert} RETURNING "tasks"."id" AS "id"`, 'SELECT "tasks"."id" AS "id" FROM rst_source AS "tasks"', {
        total: 'count(*)',
      }),
    ],
    [
      'POST /tasks?select=id',
      { accept: 'application/vnd.pgrst.object+json' },
      answered(`${insert} RETURNING "tasks"."id" AS "id"`, 'SELECT "tasks"."id" AS "id" FROM rst_source AS "tasks"', {
        body: "coalesce(string_agg(row_to_json(rst_rows)::text, ','), 'null')",
      }),
    ],
  ])('of an insert: %s %j', (request, options, text) => {
    expect(representationSql(request, { body, ...options })).toBe(text)
  })

  test('an upsert returns how many rows existed before', () => {
    const { main } = rendered('POST /tasks?select=id', {
      prefer: `${representation},resolution=merge-duplicates`,
      body,
    })
    expect(main.text).toContain(` RETURNING "tasks"."id" AS "id") SELECT `)
    expect(main.text).toContain(
      `, (coalesce(${countsUpdates}, '0')::int8 + count(*) - (SELECT count(*) FROM rst_source))::text AS updated, `,
    )
    const ignoring = rendered('POST /tasks?select=id', {
      prefer: `${representation},resolution=ignore-duplicates`,
      body,
    })
    expect(ignoring.main.text).toContain(', NULL::text AS updated, ')
  })
  test('a write returns the columns that a many-to-many or computed embedding needs', () => {
    const projects =
      'INSERT INTO "test"."projects" AS "projects" ("id") SELECT rst_body."id" FROM json_to_record($1::json) AS rst_body("id" integer)'
    expect(representationSql('POST /projects?select=users(name)', { body })).toContain(
      `(${projects} RETURNING "projects"."id" AS "id") SELECT`,
    )
    expect(representationSql('POST /projects?select=newest_task(name)', { body })).toContain(
      `(${projects} RETURNING "projects".*) SELECT`,
    )
  })
  test('an update and a deletion', () => {
    const from = { from: '(SELECT "tasks"."id" AS "id" FROM rst_source AS "tasks") AS rst_rows' }
    expect(representationSql('PATCH /tasks?id=eq.1&select=id', { body: '{"name":"b"}' })).toBe(
      answering(
        'rst_source AS (UPDATE "test"."tasks" AS "tasks" SET "name" = rst_values."name" FROM (SELECT rst_body."name" AS "name" FROM json_to_record($1::json) AS rst_body("name" text) LIMIT 1) AS rst_values WHERE "tasks"."id" = $2 RETURNING "tasks"."id" AS "id")',
        from,
      ),
    )
    expect(representationSql('DELETE /tasks?id=eq.1&select=id')).toBe(
      answering(
        'rst_source AS (DELETE FROM "test"."tasks" AS "tasks" WHERE "tasks"."id" = $1 RETURNING "tasks"."id" AS "id")',
        from,
      ),
    )
  })
  test('a write that sets no columns changes no rows', () => {
    expect(representationSql('PATCH /tasks?id=eq.1&select=id', { body: '{}' })).toContain(
      'WITH rst_source AS (SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE FALSE) SELECT ',
    )
  })
})

test('Location contains the primary key of a created row', () => {
  const options = { prefer: 'return=headers-only', body: '{"user_id":1}' }
  const { main, write } = rendered('POST /users_projects?select=user_id', options)
  expect(write).toBeUndefined()
  const location = `(SELECT array_agg(key || '=' || coalesce('eq.' || value, 'is.null')) FROM (
    SELECT each.key, each.value FROM (SELECT row_to_json(rst_one) AS row FROM rst_source AS rst_one LIMIT 1) AS data, json_each_text(data.row) AS each
    WHERE each.key = ANY ($2)
  ) AS parts)`
  const returning = '"users_projects"."user_id" AS "user_id", "users_projects"."project_id" AS "project_id"'
  expect(main.text).toBe(
    answering(
      `rst_source AS (INSERT INTO "test"."users_projects" AS "users_projects" ("user_id") SELECT rst_body."user_id" FROM json_to_record($1::json) AS rst_body("user_id" integer) RETURNING ${returning})`,
      { location, body: "''" },
    ),
  )
  expect(shownValues(main.values)).toEqual(['{"user_id":1}', '{"user_id","project_id"}'])
})

test.each([
  ['DELETE /tasks?id=eq.1', {}, 'RETURNING "tasks".*)'],
  ['DELETE /tasks?id=eq.1&select=name', {}, 'RETURNING "tasks"."name" AS "name")'],
  ['POST /keyless', { body: '{"a":1}' }, 'RETURNING "keyless".*)'],
])('selected columns must exist, even if only headers are returned: %s', (request, options, returning) => {
  const { main, write } = rendered(request, { prefer: 'return=headers-only', ...options })
  expect(write).toBeUndefined()
  expect(main.text).toContain(returning)
  expect(main.text).toContain(`'' AS body FROM rst_source AS rst_rows`)
})

test('EXPLAIN of a write includes the returned rows and the body, if the client requests the execution plan', () => {
  const { main, isExplain } = rendered('DELETE /tasks?id=eq.1', { accept: 'application/vnd.pgrst.plan' })
  expect(isExplain).toBe(true)
  expect(main.text).toBe(
    `EXPLAIN (FORMAT TEXT) ${answering('rst_source AS (DELETE FROM "test"."tasks" AS "tasks" WHERE "tasks"."id" = $1 RETURNING 1 AS "rst_nothing")', { body: "''" })}`,
  )
  const shown = rendered('DELETE /tasks', { accept: 'application/vnd.pgrst.plan', prefer: representation })
  expect(shown.main.text).toContain(arrayOfRows)
})
