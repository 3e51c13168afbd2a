/** Read requests, and the SELECT that each becomes. conformance.test.ts checks the results. */
import { expect, test } from 'vitest'
import { column, table } from '../testing/openapi.ts'
import { cacheOf } from '../testing/schema-cache.ts'
import { answering, rendered, shownValues } from '../testing/statements.ts'

type Read = [request: string, source: string, values: unknown[]]

const expectSource = (request: string, source: string, values: unknown[]) => {
  const { main, write, estimate, isExplain } = rendered(request)
  expect(main.text).toBe(answering(`rst_source AS (${source})`))
  expect(shownValues(main.values)).toEqual(values)
  expect([write, estimate, isExplain]).toEqual([undefined, undefined, false])
}

test.each<Read>([
  ['GET /tasks', 'SELECT "tasks".* FROM "test"."tasks" AS "tasks"', []],
  [
    'GET /tasks?select=id,name',
    'SELECT "tasks"."id" AS "id", "tasks"."name" AS "name" FROM "test"."tasks" AS "tasks"',
    [],
  ],
  [
    'GET /tasks?select=label:name,id::text,id::INT[]',
    'SELECT "tasks"."name" AS "label", CAST("tasks"."id" AS "text") AS "id", CAST("tasks"."id" AS int[]) AS "id" FROM "test"."tasks" AS "tasks"',
    [],
  ],
  [
    'GET /projects?select=*',
    'SELECT "projects"."id" AS "id", "projects"."name" AS "name", "projects"."client_id" AS "client_id", "projects"."data" AS "data", "projects"."tags" AS "tags", "test"."color_to_json"("projects"."color") AS "color", "projects"."search" AS "search" FROM "test"."projects" AS "projects"',
    [],
  ],
  [
    'GET /projects?select=data->a->>b,data->0,first:data->0->>x,data->"",tags->0',
    'SELECT "projects"."data"->$1->>$2 AS "b", "projects"."data"->$3::int4 AS "data", "projects"."data"->$3::int4->>$4 AS "first", "projects"."data"->$5 AS "data", to_jsonb("projects"."tags")->$3::int4 AS "tags" FROM "test"."projects" AS "projects"',
    ['a', 'b', '0', 'x', ''],
  ],
  [
    'GET /projects?select=data->a->0',
    'SELECT "projects"."data"->$1->$2::int4 AS "a" FROM "test"."projects" AS "projects"',
    ['a', '0'],
  ],
  // With a cast or a path, `*` is the name of a column.
  [
    'GET /tasks?select="*"::text,"*"->a',
    'SELECT CAST("tasks"."*" AS "text") AS "*", to_jsonb("tasks"."*")->$1 AS "a" FROM "test"."tasks" AS "tasks"',
    ['a'],
  ],
  [
    'GET /projects?select=color,color::text,color->a',
    'SELECT "test"."color_to_json"("projects"."color") AS "color", CAST("test"."color_to_json"("projects"."color") AS "text") AS "color", to_jsonb("projects"."color")->$1 AS "a" FROM "test"."projects" AS "projects"',
    ['a'],
  ],
])('columns: %s', expectSource)

test.each<Read>([
  [
    'GET /tasks?select=id&id=eq.1&id=neq.2&id=gt.3&id=gte.4&id=lt.5&id=lte.6',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."id" = $1 AND "tasks"."id" <> $2 AND "tasks"."id" > $3 AND "tasks"."id" >= $4 AND "tasks"."id" < $5 AND "tasks"."id" <= $6',
    ['1', '2', '3', '4', '5', '6'],
  ],
  [
    'GET /tasks?select=id&name=like.*a*&name=ilike.*B*&name=match.*x*&name=imatch.^y*',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."name" LIKE $1 AND "tasks"."name" ILIKE $2 AND "tasks"."name" ~ $3 AND "tasks"."name" ~* $4',
    ['%a%', '%B%', '*x*', '^y*'],
  ],
  [
    'GET /projects?select=id&tags=cs.{*}&tags=cd.{b}&tags=ov.{c}&id=sl.(1,2)&id=sr.(3,4)&id=nxr.(5,6)&id=nxl.(7,8)&id=adj.(9,10)',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" WHERE "projects"."tags" @> $1 AND "projects"."tags" <@ $2 AND "projects"."tags" && $3 AND "projects"."id" << $4 AND "projects"."id" >> $5 AND "projects"."id" &< $6 AND "projects"."id" &> $7 AND "projects"."id" -|- $8',
    ['{*}', '{b}', '{c}', '(1,2)', '(3,4)', '(5,6)', '(7,8)', '(9,10)'],
  ],
  [
    'GET /tasks?select=id&name=eq(any).{a,b}&name=like(all).{*a,b*}',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."name" = ANY ($1) AND "tasks"."name" LIKE ALL ($2)',
    ['{a,b}', '{%a,b%}'],
  ],
  [
    'GET /tasks?select=id&id=in.(1,2)&name=in.("a,b","c\\"d\\\\e")&id=in.()',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."id" = ANY ($1) AND "tasks"."name" = ANY ($2) AND "tasks"."id" = ANY ($3)',
    ['{"1","2"}', '{"a,b","c\\"d\\\\e"}', '{}'],
  ],
  [
    'GET /projects?select=id&color=in.(red,blue)&color=in.()',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" WHERE "projects"."color" = ANY (ARRAY["test"."color_from_text"($1::text), "test"."color_from_text"($2::text)]) AND "projects"."color" = ANY ($3)',
    ['red', 'blue', '{}'],
  ],
  [
    'GET /tasks?select=id&name=is.null&name=is.not_null&id=is.true&id=is.false&id=is.unknown',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."name" IS NULL AND "tasks"."name" IS NOT NULL AND "tasks"."id" IS TRUE AND "tasks"."id" IS FALSE AND "tasks"."id" IS UNKNOWN',
    [],
  ],
  [
    'GET /tasks?select=id&name=isdistinct.x',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE "tasks"."name" IS DISTINCT FROM $1',
    ['x'],
  ],
  [
    'GET /tasks?select=id&name=not.eq.a&id=not.in.(1)&name=not.is.null',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE NOT ("tasks"."name" = $1) AND NOT ("tasks"."id" = ANY ($2)) AND NOT ("tasks"."name" IS NULL)',
    ['a', '{"1"}'],
  ],
  [
    'GET /projects?select=id&name=fts.cat&name=plfts(english).dog&search=phfts(simple).a b&search=wfts.x&data->>a=fts.y',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" WHERE to_tsvector("projects"."name") @@ to_tsquery($1) AND to_tsvector($2::regconfig, "projects"."name") @@ plainto_tsquery($2::regconfig, $3) AND "projects"."search" @@ phraseto_tsquery($4::regconfig, $5) AND "projects"."search" @@ websearch_to_tsquery($6) AND to_tsvector("projects"."data"->>$7) @@ to_tsquery($8)',
    ['cat', 'english', 'dog', 'simple', 'a b', 'x', 'a', 'y'],
  ],
  [
    'GET /projects?select=id&color=eq.red&color=not.isdistinct.blue&color=cs.x&color=gt(any).{a}',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" WHERE "projects"."color" = "test"."color_from_text"($1::text) AND NOT ("projects"."color" IS DISTINCT FROM $2) AND "projects"."color" @> "test"."color_from_text"($3::text) AND "projects"."color" > ANY ($4)',
    ['red', 'blue', 'x', '{a}'],
  ],
  [
    'GET /projects?select=id&data->a=eq.1&data->>b=eq.2&tags->0=eq.x',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" WHERE "projects"."data"->$1 = $2 AND "projects"."data"->>$3 = $4 AND to_jsonb("projects"."tags")->$5::int4 = $6',
    ['a', '1', 'b', '2', '0', 'x'],
  ],
  [
    'GET /tasks?select=id&or=(id.eq.1,and(name.eq.a,name.not.eq.b))&not.and=(id.gt.1,id.lt.9)',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" WHERE ("tasks"."id" = $1 OR ("tasks"."name" = $2 AND NOT ("tasks"."name" = $3))) AND NOT ("tasks"."id" > $4 AND "tasks"."id" < $5)',
    ['1', 'a', 'b', '1', '9'],
  ],
])('filters: %s', expectSource)

test.each<Read>([
  [
    'GET /projects?select=id&order=id,name.desc,data->>a.asc.nullsfirst,client_id.desc.nullslast',
    'SELECT "projects"."id" AS "id" FROM "test"."projects" AS "projects" ORDER BY "projects"."id", "projects"."name" DESC, "projects"."data"->>$1 ASC NULLS FIRST, "projects"."client_id" DESC NULLS LAST',
    ['a'],
  ],
  [
    'GET /tasks?select=id&limit=5&offset=10',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" LIMIT 5 OFFSET $1',
    ['10'],
  ],
  ['GET /tasks?select=id&limit=1001', 'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" LIMIT $1', ['1001']],
  ['GET /tasks?select=id&limit=5', 'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" LIMIT 5', []],
  ['GET /tasks?select=id&offset=3', 'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" OFFSET $1', ['3']],
])('order and range: %s', expectSource)

test.each<Read>([
  [
    'GET /tasks?select=id,projects(name)',
    'SELECT "tasks"."id" AS "id", row_to_json("tasks_projects_1".*) AS "projects" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id" OFFSET 0) AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /tasks?select=id,projects!inner(name)',
    'SELECT "tasks"."id" AS "id", row_to_json("tasks_projects_1".*) AS "projects" FROM "test"."tasks" AS "tasks" INNER JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /tasks?select=id,projects(name)&projects.name=eq.a&projects.limit=1',
    'SELECT "tasks"."id" AS "id", row_to_json("tasks_projects_1".*) AS "projects" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id" AND "projects_1"."name" = $1 LIMIT 1 OFFSET 0) AS "tasks_projects_1" ON TRUE',
    ['a'],
  ],
  [
    'GET /clients?select=id,projects(name)',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."rst_rows", '[]') AS "projects" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1") AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
  [
    'GET /clients?select=id,projects!inner(name)&projects.order=name.desc&projects.limit=3&projects.offset=1&projects.id=gt.5',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."rst_rows", '[]') AS "projects" FROM "test"."clients" AS "clients" INNER JOIN LATERAL (SELECT json_agg("clients_projects_1") AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id" AND "projects_1"."id" > $1 ORDER BY "projects_1"."name" DESC LIMIT 3 OFFSET $2) AS "clients_projects_1") AS "clients_projects_1" ON "clients_projects_1"."rst_rows" IS NOT NULL`,
    ['5', '1'],
  ],
  [
    'GET /projects?select=id,users(name)',
    `SELECT "projects"."id" AS "id", COALESCE("projects_users_1"."rst_rows", '[]') AS "users" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT json_agg("projects_users_1") AS "rst_rows" FROM (SELECT "users"."name" AS "name" FROM "test"."users" AS "users", "test"."users_projects" AS "users_projects" WHERE "users_projects"."user_id" = "users"."id" AND "users_projects"."project_id" = "projects"."id" ORDER BY "users"."id") AS "projects_users_1") AS "projects_users_1" ON TRUE`,
    [],
  ],
  [
    'GET /projects?select=id,users(name)&users.order=name',
    `SELECT "projects"."id" AS "id", COALESCE("projects_users_1"."rst_rows", '[]') AS "users" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT json_agg("projects_users_1") AS "rst_rows" FROM (SELECT "users"."name" AS "name" FROM "test"."users" AS "users", "test"."users_projects" AS "users_projects" WHERE "users_projects"."user_id" = "users"."id" AND "users_projects"."project_id" = "projects"."id" ORDER BY "users"."name") AS "projects_users_1") AS "projects_users_1" ON TRUE`,
    [],
  ],
  [
    'GET /projects?select=clients(projects:id),latest:newest_task(name)',
    'SELECT row_to_json("projects_clients_1".*) AS "clients", row_to_json("projects_latest_1".*) AS "latest" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT "clients_1"."id" AS "projects" FROM "test"."clients" AS "clients_1" WHERE "clients_1"."id" = "projects"."client_id" OFFSET 0) AS "projects_clients_1" ON TRUE LEFT JOIN LATERAL (SELECT "tasks_1"."name" AS "name" FROM "test"."newest_task"(("projects".*)::"test"."projects") AS "tasks_1" OFFSET 0) AS "projects_latest_1" ON TRUE',
    [],
  ],
  [
    'GET /projects?select=id,latest:newest_task(name)',
    'SELECT "projects"."id" AS "id", row_to_json("projects_latest_1".*) AS "latest" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT "tasks_1"."name" AS "name" FROM "test"."newest_task"(("projects".*)::"test"."projects") AS "tasks_1" OFFSET 0) AS "projects_latest_1" ON TRUE',
    [],
  ],
  [
    'GET /tasks?select=id,projects()',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT 1 AS "rst_nothing" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /tasks?select=id,projects!inner()',
    'SELECT "tasks"."id" AS "id" FROM "test"."tasks" AS "tasks" INNER JOIN LATERAL (SELECT 1 AS "rst_nothing" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /clients?select=id,projects!inner(tasks())',
    'SELECT "clients"."id" AS "id" FROM "test"."clients" AS "clients" INNER JOIN LATERAL (SELECT json_agg("clients_projects_1") AS "rst_rows" FROM (SELECT 1 AS "rst_nothing" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2") AS "rst_rows" FROM (SELECT 1 AS "rst_nothing" FROM "test"."tasks" AS "tasks_2" WHERE "tasks_2"."project_id" = "projects_1"."id") AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON "clients_projects_1"."rst_rows" IS NOT NULL',
    [],
  ],
  [
    'GET /clients?select=id,projects(id,tasks(id,projects(id)))',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."rst_rows", '[]') AS "projects" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1") AS "rst_rows" FROM (SELECT "projects_1"."id" AS "id", COALESCE("projects_tasks_2"."rst_rows", '[]') AS "tasks" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2") AS "rst_rows" FROM (SELECT "tasks_2"."id" AS "id", row_to_json("tasks_projects_3".*) AS "projects" FROM "test"."tasks" AS "tasks_2" LEFT JOIN LATERAL (SELECT "projects_3"."id" AS "id" FROM "test"."projects" AS "projects_3" WHERE "projects_3"."id" = "tasks_2"."project_id") AS "tasks_projects_3" ON TRUE WHERE "tasks_2"."project_id" = "projects_1"."id") AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
  [
    'GET /tasks?select=id,projects(name)&order=projects(name).desc',
    'SELECT "tasks"."id" AS "id", row_to_json("tasks_projects_1".*) AS "projects" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id" OFFSET 0) AS "tasks_projects_1" ON TRUE ORDER BY "tasks_projects_1"."name" DESC',
    [],
  ],
  [
    'GET /tasks?select=id,projects(id)&projects=is.null',
    'SELECT "tasks"."id" AS "id", row_to_json("tasks_projects_1".*) AS "projects" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."id" AS "id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE WHERE ("tasks_projects_1".*) IS NOT DISTINCT FROM NULL',
    [],
  ],
  [
    'GET /clients?select=id,projects(id)&projects=not.is.null',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."rst_rows", '[]') AS "projects" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1") AS "rst_rows" FROM (SELECT "projects_1"."id" AS "id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE WHERE "clients_projects_1"."rst_rows" IS DISTINCT FROM NULL`,
    [],
  ],
  [
    'GET /projects?select=id,clients(id),tasks(id)&or=(clients.is.null,tasks.not.is.null)',
    `SELECT "projects"."id" AS "id", row_to_json("projects_clients_1".*) AS "clients", COALESCE("projects_tasks_1"."rst_rows", '[]') AS "tasks" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT "clients_1"."id" AS "id" FROM "test"."clients" AS "clients_1" WHERE "clients_1"."id" = "projects"."client_id") AS "projects_clients_1" ON TRUE LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_1") AS "rst_rows" FROM (SELECT "tasks_1"."id" AS "id" FROM "test"."tasks" AS "tasks_1" WHERE "tasks_1"."project_id" = "projects"."id") AS "projects_tasks_1") AS "projects_tasks_1" ON TRUE WHERE (("projects_clients_1".*) IS NOT DISTINCT FROM NULL OR "projects_tasks_1"."rst_rows" IS DISTINCT FROM NULL)`,
    [],
  ],
])('embeddings: %s', expectSource)

test.each<Read>([
  [
    'GET /tasks?select=id,...projects(label:name,id::text)',
    'SELECT "tasks"."id" AS "id", "tasks_projects_1"."label" AS "label", "tasks_projects_1"."id" AS "id" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "label", CAST("projects_1"."id" AS "text") AS "id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /clients?select=id,...projects(name,id)&projects.order=id.desc',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."name", '[]') AS "name", COALESCE("clients_projects_1"."id", '[]') AS "id" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1"."name") AS "name", json_agg("clients_projects_1"."id") AS "id", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name", "projects_1"."id" AS "id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id" ORDER BY "projects_1"."id" DESC) AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
  [
    'GET /clients?select=id,...projects!inner(name)',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."name", '[]') AS "name" FROM "test"."clients" AS "clients" INNER JOIN LATERAL (SELECT json_agg("clients_projects_1"."name") AS "name", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON "clients_projects_1"."rst_rows" IS NOT NULL`,
    [],
  ],
  [
    'GET /clients?select=id,...projects(name,...tasks(label:name))',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."name", '[]') AS "name", COALESCE("clients_projects_1"."label", '[]') AS "label" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1"."name") AS "name", json_agg("clients_projects_1"."label") AS "label", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name", COALESCE("projects_tasks_2"."label", '[]') AS "label" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2"."label") AS "label", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "tasks_2"."name" AS "label" FROM "test"."tasks" AS "tasks_2" WHERE "tasks_2"."project_id" = "projects_1"."id") AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
  [
    'GET /tasks?select=id,...projects(pid:id,...clients(cname:name))',
    'SELECT "tasks"."id" AS "id", "tasks_projects_1"."pid" AS "pid", "tasks_projects_1"."cname" AS "cname" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."id" AS "pid", "projects_clients_2"."cname" AS "cname" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT "clients_2"."name" AS "cname" FROM "test"."clients" AS "clients_2" WHERE "clients_2"."id" = "projects_1"."client_id") AS "projects_clients_2" ON TRUE WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /tasks?select=id,...projects(id,clients(name))',
    'SELECT "tasks"."id" AS "id", "tasks_projects_1"."id" AS "id", "tasks_projects_1"."clients" AS "clients" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."id" AS "id", row_to_json("projects_clients_2".*) AS "clients" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT "clients_2"."name" AS "name" FROM "test"."clients" AS "clients_2" WHERE "clients_2"."id" = "projects_1"."client_id") AS "projects_clients_2" ON TRUE WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /clients?select=id,...projects(id,tasks(name))',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."id", '[]') AS "id", COALESCE("clients_projects_1"."tasks", '[]') AS "tasks" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1"."id") AS "id", json_agg("clients_projects_1"."tasks") AS "tasks", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."id" AS "id", COALESCE("projects_tasks_2"."rst_rows", '[]') AS "tasks" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT json_agg("projects_tasks_2") AS "rst_rows" FROM (SELECT "tasks_2"."name" AS "name" FROM "test"."tasks" AS "tasks_2" WHERE "tasks_2"."project_id" = "projects_1"."id") AS "projects_tasks_2") AS "projects_tasks_2" ON TRUE WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
  [
    'GET /tasks?select=*,...projects(client_id)',
    'SELECT "tasks"."id" AS "id", "tasks"."name" AS "name", "tasks"."project_id" AS "project_id", "tasks_projects_1"."client_id" AS "client_id" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."client_id" AS "client_id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE',
    [],
  ],
  [
    'GET /clients?select=id,...projects(*)',
    `SELECT "clients"."id" AS "id", COALESCE("clients_projects_1"."id", '[]') AS "id", COALESCE("clients_projects_1"."name", '[]') AS "name", COALESCE("clients_projects_1"."client_id", '[]') AS "client_id", COALESCE("clients_projects_1"."data", '[]') AS "data", COALESCE("clients_projects_1"."tags", '[]') AS "tags", COALESCE("clients_projects_1"."color", '[]') AS "color", COALESCE("clients_projects_1"."search", '[]') AS "search" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT json_agg("clients_projects_1"."id") AS "id", json_agg("clients_projects_1"."name") AS "name", json_agg("clients_projects_1"."client_id") AS "client_id", json_agg("clients_projects_1"."data") AS "data", json_agg("clients_projects_1"."tags") AS "tags", json_agg("clients_projects_1"."color") AS "color", json_agg("clients_projects_1"."search") AS "search", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."id" AS "id", "projects_1"."name" AS "name", "projects_1"."client_id" AS "client_id", "projects_1"."data" AS "data", "projects_1"."tags" AS "tags", "test"."color_to_json"("projects_1"."color") AS "color", "projects_1"."search" AS "search" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE`,
    [],
  ],
])('spreads: %s', expectSource)

test.each<Read>([
  ['GET /tasks?select=count()', 'SELECT count(*) AS "count" FROM "test"."tasks" AS "tasks"', []],
  [
    'GET /tasks?select=name,count(),total:id.sum()::text,id::text.max()',
    'SELECT "tasks"."name" AS "name", count(*) AS "count", CAST(sum("tasks"."id") AS "text") AS "total", max(CAST("tasks"."id" AS "text")) AS "max" FROM "test"."tasks" AS "tasks" GROUP BY "tasks"."name" ORDER BY "tasks"."name"',
    [],
  ],
  [
    'GET /tasks?select=name,id.sum()&order=name.desc',
    'SELECT "tasks"."name" AS "name", sum("tasks"."id") AS "sum" FROM "test"."tasks" AS "tasks" GROUP BY "tasks"."name" ORDER BY "tasks"."name" DESC',
    [],
  ],
  [
    'GET /tasks?select=*,count()',
    'SELECT "tasks"."id" AS "id", "tasks"."name" AS "name", "tasks"."project_id" AS "project_id", count(*) AS "count" FROM "test"."tasks" AS "tasks" GROUP BY "tasks"."id", "tasks"."name", "tasks"."project_id" ORDER BY "tasks"."id", "tasks"."name", "tasks"."project_id"',
    [],
  ],
  [
    'GET /tasks?select=projects(name),id.avg()',
    'SELECT to_jsonb("tasks_projects_1".*) AS "projects", avg("tasks"."id") AS "avg" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id" OFFSET 0) AS "tasks_projects_1" ON TRUE GROUP BY to_jsonb("tasks_projects_1".*)',
    [],
  ],
  [
    'GET /clients?select=projects(name),id.min()',
    `SELECT COALESCE("clients_projects_1"."rst_rows", '[]') AS "projects", min("clients"."id") AS "min" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT jsonb_agg("clients_projects_1") AS "rst_rows" FROM (SELECT "projects_1"."name" AS "name" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE GROUP BY "clients_projects_1"."rst_rows"`,
    [],
  ],
  [
    'GET /projects?select=data->>a,n:id.count()',
    'SELECT "projects"."data"->>$1 AS "a", count("projects"."id") AS "n" FROM "test"."projects" AS "projects" GROUP BY "projects"."data"->>$1 ORDER BY "projects"."data"->>$1',
    ['a'],
  ],
  [
    'GET /projects?select=color.max()',
    'SELECT max("projects"."color") AS "max" FROM "test"."projects" AS "projects"',
    [],
  ],
  [
    'GET /tasks?select=name,...projects(id.sum(),count())',
    'SELECT "tasks"."name" AS "name", sum("tasks_projects_1"."rst_aggregate_1_sum") AS "sum", count("tasks_projects_1"."rst_aggregate_2_count") AS "count" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."id" AS "rst_aggregate_1_sum", TRUE AS "rst_aggregate_2_count" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE GROUP BY "tasks"."name" ORDER BY "tasks"."name"',
    [],
  ],
  [
    'GET /tasks?select=name,...projects(client_id,...clients(id.sum()::text,label:name))',
    'SELECT "tasks"."name" AS "name", "tasks_projects_1"."client_id" AS "client_id", CAST(sum("tasks_projects_1"."rst_aggregate_1_sum") AS "text") AS "sum", "tasks_projects_1"."label" AS "label" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."client_id" AS "client_id", "projects_clients_2"."rst_aggregate_1_sum" AS "rst_aggregate_1_sum", "projects_clients_2"."label" AS "label" FROM "test"."projects" AS "projects_1" LEFT JOIN LATERAL (SELECT "clients_2"."id" AS "rst_aggregate_1_sum", "clients_2"."name" AS "label" FROM "test"."clients" AS "clients_2" WHERE "clients_2"."id" = "projects_1"."client_id") AS "projects_clients_2" ON TRUE WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE GROUP BY "tasks"."name", "tasks_projects_1"."client_id", "tasks_projects_1"."label" ORDER BY "tasks"."name", "tasks_projects_1"."client_id", "tasks_projects_1"."label"',
    [],
  ],
  [
    'GET /tasks?select=...projects(client_id,n:id.max()::text)&order=name',
    'SELECT "tasks_projects_1"."client_id" AS "client_id", CAST(max("tasks_projects_1"."rst_aggregate_2_n") AS "text") AS "n" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."client_id" AS "client_id", "projects_1"."id" AS "rst_aggregate_2_n" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE GROUP BY "tasks_projects_1"."client_id" ORDER BY "tasks"."name"',
    [],
  ],
  [
    'GET /tasks?select=name,...projects(client_id),count()',
    'SELECT "tasks"."name" AS "name", "tasks_projects_1"."client_id" AS "client_id", count(*) AS "count" FROM "test"."tasks" AS "tasks" LEFT JOIN LATERAL (SELECT "projects_1"."client_id" AS "client_id" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."id" = "tasks"."project_id") AS "tasks_projects_1" ON TRUE GROUP BY "tasks"."name", "tasks_projects_1"."client_id" ORDER BY "tasks"."name", "tasks_projects_1"."client_id"',
    [],
  ],
  [
    'GET /clients?select=name,...projects(label:name),count()',
    `SELECT "clients"."name" AS "name", COALESCE("clients_projects_1"."label", '[]') AS "label", count(*) AS "count" FROM "test"."clients" AS "clients" LEFT JOIN LATERAL (SELECT jsonb_agg("clients_projects_1"."label") AS "label", nullif(count(*), 0) AS "rst_rows" FROM (SELECT "projects_1"."name" AS "label" FROM "test"."projects" AS "projects_1" WHERE "projects_1"."client_id" = "clients"."id") AS "clients_projects_1") AS "clients_projects_1" ON TRUE GROUP BY "clients"."name", "clients_projects_1"."label" ORDER BY "clients"."name"`,
    [],
  ],
  [
    'GET /projects?select=tasks(name),...clients(id.sum())',
    `SELECT COALESCE("projects_tasks_1"."rst_rows", '[]') AS "tasks", sum("projects_clients_1"."rst_aggregate_1_sum") AS "sum" FROM "test"."projects" AS "projects" LEFT JOIN LATERAL (SELECT jsonb_agg("projects_tasks_1") AS "rst_rows" FROM (SELECT "tasks_1"."name" AS "name" FROM "test"."tasks" AS "tasks_1" WHERE "tasks_1"."project_id" = "projects"."id") AS "projects_tasks_1") AS "projects_tasks_1" ON TRUE LEFT JOIN LATERAL (SELECT "clients_1"."id" AS "rst_aggregate_1_sum" FROM "test"."clients" AS "clients_1" WHERE "clients_1"."id" = "projects"."client_id") AS "projects_clients_1" ON TRUE GROUP BY "projects_tasks_1"."rst_rows"`,
    [],
  ],
])('aggregates: %s', expectSource)

test('JSON columns are not converted, and text search converts only columns of a known type', () => {
  const cache = cacheOf({ tables: [table('logs', [column('entry', 'json'), column('text', 'text')])] })
  const { main } = rendered('GET /logs?select=entry->a&text=fts.x&nope=fts.y', {}, {}, cache)
  expect(main.text).toContain('SELECT "logs"."entry"->$1 AS "a"')
  expect(main.text).toContain('to_tsvector("logs"."text") @@ to_tsquery($2) AND "logs"."nope" @@ to_tsquery($3)')
})

test('a count joins only required or filtered embeddings', () => {
  const counted = (request: string) =>
    /\(SELECT count\(\*\) FROM \((.*?)\) AS rst_counted\)/.exec(
      rendered(request, { prefer: 'count=exact' }).main.text,
    )?.[1]
  const target = 'GET /projects?select=id,clients(id),tasks(id)&limit=1'
  expect(counted(target)).toBe('SELECT 1 FROM "test"."projects" AS "projects"')
  const counting = counted(`${target}&tasks=not.is.null&id=gt.1`)
  expect(counting).toContain('AS "projects_tasks_1"')
  expect(counting).not.toContain('projects_clients')
  expect(counted(`${target.replace('clients(', 'clients!inner(')}`)).toContain('INNER JOIN LATERAL')
})

test('an aggregate is computed in its node, except in a spread', () => {
  const { text } = rendered('GET /projects?select=clients(id.sum())').main
  expect(text).toContain('sum("clients_1"."id") AS "sum"')
  expect(text).not.toContain('rst_aggregate')
})
