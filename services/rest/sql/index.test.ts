/** The total and the body of a response. */
import { describe, expect, test } from 'vitest'
import type { MediaHandler } from '../../schema-cache/types.ts'
import { routine } from '../testing/openapi.ts'
import { cacheOf, own } from '../testing/schema-cache.ts'
import { answering, arrayOfRows, type RequestOptions, rendered, shownValues } from '../testing/statements.ts'

const all = 'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks"'
const counted = (from = '"test"."tasks" AS "tasks"') => `(SELECT count(*) FROM (SELECT 1 FROM ${from}) AS rst_counted)`

describe('the total', () => {
  /** The SQL after the rows, and the estimate if the request needs one. */
  test.each<
    [request: string, prefer: string | undefined, total: string, rest: string, values: string[], estimate?: string]
  >([
    ['GET /tasks?select=id', undefined, 'NULL::int8', '', []],
    ['GET /tasks?select=id', 'count=exact', 'count(*)', '', []],
    ['GET /tasks?select=id&id=gt.1', 'count=exact', 'count(*)', ' WHERE "tasks"."id" > $1', ['1']],
    ['GET /tasks?select=id&limit=5', 'count=exact', counted(), ' LIMIT 5', []],
    ['GET /tasks?select=id&offset=1', 'count=exact', counted(), ' OFFSET $1', ['1']],
    [
      'GET /tasks?select=id&id=gt.1&limit=5',
      'count=exact',
      counted('"test"."tasks" AS "tasks" WHERE "tasks"."id" > $2'),
      ' WHERE "tasks"."id" > $1 LIMIT 5',
      ['1', '1'],
    ],
    ['GET /tasks?select=id', 'count=planned', 'NULL::int8', '', [], 'SELECT 1 FROM "test"."tasks" AS "tasks"'],
    [
      'GET /tasks?select=id&limit=5',
      'count=planned',
      'NULL::int8',
      ' LIMIT 5',
      [],
      'SELECT 1 FROM "test"."tasks" AS "tasks"',
    ],
    ['GET /tasks?select=id', 'count=estimated', 'count(*)', '', [], 'SELECT 1 FROM "test"."tasks" AS "tasks"'],
    [
      'GET /tasks?select=id&limit=5',
      'count=estimated',
      counted(),
      ' LIMIT 5',
      [],
      'SELECT 1 FROM "test"."tasks" AS "tasks"',
    ],
  ])('%s, %s', (request, prefer, total, rest, values, estimate) => {
    const answer = rendered(request, prefer === undefined ? {} : { prefer })
    expect(answer.main).toEqual({ text: answering(`rst_source AS (${all}${rest})`, { total }), values })
    expect(answer.estimate).toEqual(
      estimate === undefined ? undefined : { text: `EXPLAIN (FORMAT JSON) ${estimate}`, values: [] },
    )
  })
  test('counts at most db-max-rows + 1 rows if it is estimated', () => {
    const { main } = rendered('GET /tasks?select=id', { prefer: 'count=estimated' }, { maximumRows: 10 })
    const total = '(SELECT count(*) FROM (SELECT 1 FROM "test"."tasks" AS "tasks" LIMIT 11) AS rst_counted)'
    expect(main).toEqual({ text: answering(`rst_source AS (${all} LIMIT 10)`, { total }), values: [] })
    const exact = rendered('GET /tasks?select=id', { prefer: 'count=exact' }, { maximumRows: 10 })
    expect(exact.main).toEqual({
      text: answering(`rst_source AS (${all} LIMIT 10)`, { total: counted() }),
      values: [],
    })
  })
  test('counts the rows that match embeddings, and joins no other embeddings', () => {
    const total = (request: string) =>
      /SELECT (\(SELECT count.*) AS total/s.exec(rendered(request, { prefer: 'count=exact' }).main.text)?.[1]
    const inner = (on = '') =>
      `INNER JOIN LATERAL (SELECT "projects_1"."id" AS "id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id"${on}) AS "tasks_projects_1" ON TRUE`
    expect(total('GET /tasks?select=id,projects(id)&limit=2')).toBe(counted())
    expect(total('GET /tasks?select=id,projects!inner(id)&limit=2')).toBe(
      counted(`"test"."tasks" AS "tasks" ${inner()}`),
    )
    expect(total('GET /tasks?select=id,projects!inner(id)&projects.id=eq.1&limit=2')).toBe(
      counted(`"test"."tasks" AS "tasks" ${inner(' AND "projects_1"."id" = $2')}`),
    )
    const left = inner().replace('INNER', 'LEFT')
    expect(total('GET /tasks?select=id,projects(id)&projects=is.null&limit=2')).toBe(
      counted(`"test"."tasks" AS "tasks" ${left} WHERE ("tasks_projects_1".*) IS NOT DISTINCT FROM NULL`),
    )
    expect(total('GET /tasks?select=id,projects(id)&or=(projects.is.null,id.eq.1)&limit=2')).toBe(
      counted(
        `"test"."tasks" AS "tasks" ${left} WHERE (("tasks_projects_1".*) IS NOT DISTINCT FROM NULL OR "tasks"."id" = $2)`,
      ),
    )
  })
  test('counts the rows that a function returned', () => {
    const exact = rendered('GET /rpc/find?name=a&select=id&limit=3', { prefer: 'count=exact' })
    expect(exact.main.text).toContain(`SELECT ${counted('rst_call AS "projects"')} AS total`)
    // The number of rows is unknown beforehand.
    const estimated = rendered('GET /rpc/find?name=a&select=id&limit=3', { prefer: 'count=estimated' })
    expect([estimated.main, estimated.estimate]).toEqual([exact.main, undefined])
    const planned = rendered('GET /rpc/find?name=a&select=id', { prefer: 'count=planned' })
    expect(planned.main.text).toContain('SELECT NULL::int8 AS total')
    expect(planned.estimate).toBeUndefined()
  })
})

describe('the body', () => {
  const bodyOf = (request: string, options: RequestOptions = {}) =>
    / AS updated, (.*) AS body FROM rst_source AS rst_rows$/s.exec(rendered(request, options).main.text)?.[1]
  const csv = `(SELECT coalesce(string_agg(key, ','), '') FROM (
    SELECT json_object_keys(row_to_json(rst_head)) AS key FROM (SELECT * FROM rst_source LIMIT 1) AS rst_head
  ) AS keys) || chr(10) || coalesce(string_agg(substr(rst_rows::text, 2, length(rst_rows::text) - 2), chr(10)), '')`
  const [object, array] = ['application/vnd.pgrst.object+json', 'application/vnd.pgrst.array+json']
  const stripped = ';nulls=stripped'

  test.each<[string, string | undefined, string]>([
    ['GET /tasks?select=id', undefined, arrayOfRows],
    ['HEAD /tasks?select=id', undefined, "''"],
    ['GET /tasks?select=id', 'text/csv', csv],
    [
      'GET /tasks?select=id',
      'application/geo+json',
      "json_build_object('type', 'FeatureCollection', 'features', coalesce(json_agg(ST_AsGeoJSON(rst_rows)::json), '[]'))",
    ],
    ['GET /tasks?select=id', object, "coalesce(string_agg(row_to_json(rst_rows)::text, ','), 'null')"],
    [
      'GET /tasks?select=id',
      object + stripped,
      "coalesce(string_agg(json_strip_nulls(row_to_json(rst_rows))::text, ','), 'null')",
    ],
    ['GET /tasks?select=id', array + stripped, "coalesce(json_strip_nulls(json_agg(rst_rows)), '[]')"],
    ['GET /clients', 'text/xml', '"test"."as_xml"(rst_rows::"test"."clients")'],
    ['GET /clients', 'application/x-any', '"test"."as_any"(rst_rows)'],
    ['GET /rpc/add?a=1', undefined, "coalesce(string_agg(to_json(rst_rows.pgrst_scalar)::text, ','), 'null')"],
    ['GET /rpc/add?a=1', object, "coalesce(string_agg(to_json(rst_rows.pgrst_scalar)::text, ','), 'null')"],
    [
      'GET /rpc/add?a=1',
      object + stripped,
      "coalesce(string_agg(json_strip_nulls(to_json(rst_rows.pgrst_scalar))::text, ','), 'null')",
    ],
    [
      'GET /rpc/add?a=1',
      array + stripped,
      "coalesce(string_agg(json_strip_nulls(to_json(rst_rows.pgrst_scalar))::text, ','), 'null')",
    ],
    ['GET /rpc/find', array + stripped, "coalesce(json_strip_nulls(json_agg(rst_rows)), '[]')"],
    ['HEAD /rpc/find', undefined, "''"],
  ])('%s as %s', (request, accept, body) => {
    expect(bodyOf(request, accept === undefined ? {} : { accept })).toBe(body)
  })

  test("depends on the number and kind of a function's results", () => {
    const composite = { kind: 'composite', type: own('pair'), isAlias: false } as const
    const handler: MediaHandler = {
      aggregate: undefined,
      subject: own('picture'),
      mediaType: 'image/png',
      type: own('image/png'),
    }
    const cache = cacheOf({
      routines: [
        routine('many', [], { returnsSet: true }),
        routine('one', [], { returns: composite }),
        routine('picture', []),
      ],
      mediaHandlers: [handler],
    })
    const body = (request: string, accept?: string) =>
      / AS updated, (.*) AS body FROM rst_source AS rst_rows$/s.exec(
        rendered(request, accept === undefined ? {} : { accept }, {}, cache).main.text,
      )?.[1]
    expect(body('GET /rpc/many')).toBe("coalesce(json_agg(rst_rows.pgrst_scalar), '[]')")
    expect(body('GET /rpc/many', array + stripped)).toBe(
      "coalesce(json_strip_nulls(json_agg(rst_rows.pgrst_scalar)), '[]')",
    )
    expect(body('GET /rpc/one')).toBe("coalesce(string_agg(row_to_json(rst_rows)::text, ','), 'null')")
    expect(body('GET /rpc/one', array + stripped)).toBe(
      "coalesce(string_agg(json_strip_nulls(row_to_json(rst_rows))::text, ','), 'null')",
    )
    expect(body('GET /rpc/picture', 'image/png')).toBe('(SELECT pgrst_scalar FROM rst_source)')
  })

  test.each<[string, string]>([
    ['', 'FORMAT TEXT'],
    ['+json', 'FORMAT JSON'],
    ['+text; options=analyze|verbose|settings|buffers|wal', 'FORMAT TEXT, ANALYZE, VERBOSE, SETTINGS, BUFFERS, WAL'],
  ])('can be the execution plan%s', (how, options) => {
    const accept = `application/vnd.pgrst.plan${how}`
    const { main, isExplain } = rendered('GET /tasks?select=id', { accept })
    expect([main.text, isExplain]).toEqual([`EXPLAIN (${options}) ${answering(`rst_source AS (${all})`)}`, true])
    const called = rendered('GET /rpc/add?a=1', { accept })
    expect(called.main.text).toMatch(new RegExp(`^EXPLAIN \\(${options}\\) WITH rst_call AS `))
    expect(called.isExplain).toBe(true)
    expect(shownValues(called.main.values)).toEqual(['1'])
    expect(rendered('GET /rpc/add?a=1').isExplain).toBe(false)
  })
})

test('explains a write only on request', () => {
  const options = { prefer: 'return=representation' }
  expect(rendered('DELETE /tasks', options).isExplain).toBe(false)
  expect(rendered('DELETE /tasks', { ...options, accept: 'application/vnd.pgrst.plan' }).isExplain).toBe(true)
})
