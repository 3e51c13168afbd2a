import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadSchemaCache } from '../../schema-cache/load.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { parameter, routine, table } from '../testing/openapi.ts'
import { accessibleOf, accessibleSql, everythingIn } from './accessible.ts'
import type { DescribedSchema } from './model.ts'

const names = ({ tables, routines }: DescribedSchema) => ({
  tables: tables.map(({ name }) => name),
  routines: routines.map(({ name, parameters }) => `${name}(${parameters.map(each => each.type).join()})`),
})

describe('accessibleOf', () => {
  const cache = {
    schemaDescriptions: new Map(),
    tables: new Map([['test', new Map(['a', 'b'].map(name => [name, table(name, [])]))]]),
    routines: new Map([
      ['test', new Map([['f', [routine('f', [parameter('x', 'test.mood')]), routine('f', [parameter('x', 'text')])]]])],
    ]),
  }

  test('keeps the objects that the rows name, each overload separately, whether or not types have their schema', () => {
    const of = (type: string) => [{ kind: 'function', name: 'f', parameters: [{ name: 'x', type }] }] as const
    expect(names(accessibleOf(cache, 'test', of('mood')))).toEqual({ tables: [], routines: ['f(test.mood)'] })
    expect(names(accessibleOf(cache, 'test', of('test.mood')))).toEqual({ tables: [], routines: ['f(test.mood)'] })
    expect(names(accessibleOf(cache, 'test', of('text')))).toEqual({ tables: [], routines: ['f(text)'] })
  })

  test("keeps the cache's order, and skips names that are not in the cache", () => {
    const rows = ['new', 'b', 'a'].map(name => ({ kind: 'relation', name, parameters: null }) as const)
    expect(names(accessibleOf(cache, 'test', rows)).tables).toEqual(['a', 'b'])
    expect(names(accessibleOf(cache, 'other', rows))).toEqual({ tables: [], routines: [] })
  })

  test('keeps nothing if there are no rows, and everything if the rows are undefined', () => {
    expect(names(accessibleOf(cache, 'test', []))).toEqual({ tables: [], routines: [] })
    expect(names(everythingIn(cache, 'test'))).toEqual({ tables: ['a', 'b'], routines: ['f(test.mood)', 'f(text)'] })
  })
})

const objects = `
  create schema test; create schema other;
  create role reader; create role owner; create role nobody_special;
  grant usage on schema test, other to public;
  alter default privileges revoke execute on functions from public;
  create type test.mood as enum ('sad'); create domain other.mood as text;
  create table test.closed (id int);
  create table test.readable (id int); grant select on test.readable to reader;
  create table test.one_column (id int, name text); grant update (name) on test.one_column to reader;
  create table test.owned (id int); alter table test.owned owner to owner; revoke all on test.owned from owner;
  create table test.split (id int) partition by list (id);
  create table test.split_1 partition of test.split for values in (1);
  grant select on test.split, test.split_1 to reader;
  create view test.seen as select 1 as id; grant select on test.seen to reader;
  create sequence test.counter; grant all on sequence test.counter to reader;
  create table other.readable (id int); grant select on other.readable to reader;
  create function test.open(x int, variadic more text[] default '{}') returns int language sql as 'select 1';
  create function test.open(x test.mood, out y int) language sql as 'select 1';
  create function test.open(x text) returns int language sql as 'select 1';
  create function test.unnamed(json) returns int language sql as 'select 1';
  create procedure test.act() language sql as '';
  create aggregate test.total(int) (sfunc = int4pl, stype = int);
  grant execute on function test.open(int, text[]), test.open(test.mood), test.unnamed(json) to reader;
  grant execute on procedure test.act to reader; grant execute on function test.total to reader`

describe.each(['16', '17', '18'] as const)('on Postgres %s', major => {
  let postgres: TestPostgres
  let client: pg.Client
  let cache: SchemaCache

  beforeAll(async () => {
    postgres = await startPostgres(major)
    await postgres.run(objects)
    client = new pg.Client(postgres.uri('postgres'))
    await client.connect()
    await client.query(`set search_path = ''`)
    const query = async (text: string, values?: readonly unknown[]) => (await client.query(text, values?.slice())).rows
    cache = await loadSchemaCache(query, { schemas: ['test', 'other'], hoistedSettings: [], timeZones: false })
  })
  afterAll(async () => {
    await client?.end()
    await postgres?.stop()
  })

  async function seenBy(role: string, searchPath: string, schema = 'test') {
    await client.query(`begin; set local role ${role}; set local search_path = ${searchPath}`)
    const { rows } = await client.query(accessibleSql, [schema])
    await client.query('rollback')
    return names(accessibleOf(cache, schema, rows))
  }

  test.each(["''", 'test', 'test, other', 'other, test'])(
    'a role sees its granted objects, with search path %s',
    async path => {
      expect(await seenBy('reader', path)).toEqual({
        tables: ['one_column', 'readable', 'seen', 'split'],
        routines: ['open(test.mood)', 'open(integer,text[])', 'unnamed(json)'],
      })
    },
  )

  test('an owner sees its own objects, even after a REVOKE', async () => {
    expect(await seenBy('owner', 'test')).toEqual({ tables: ['owned'], routines: [] })
  })

  test('a role without privileges sees nothing, in any schema', async () => {
    expect(await seenBy('nobody_special', 'test')).toEqual({ tables: [], routines: [] })
    expect(await seenBy('reader', 'test', 'missing')).toEqual({ tables: [], routines: [] })
    expect(await seenBy('reader', 'test', 'other')).toEqual({ tables: ['readable'], routines: [] })
  })
})
