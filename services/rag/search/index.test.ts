import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectionAddress } from '../../postgres/address.ts'
import { startPgvector } from '../../testing/pgvector.ts'
import type { TestPostgres } from '../../testing/postgres.ts'
import type { TableSettings } from '../configuration/types.ts'
import type { Filter } from '../request/filter.ts'
import { type SearchedPipeline, Searcher } from './index.ts'

const postgres = await startPgvector()
const never = new AbortController().signal
const opened: Searcher[] = []

const table = (name: string, more: Partial<TableSettings> = {}): TableSettings => ({
  schema: undefined,
  name,
  textColumn: 'content',
  vectorColumn: 'embedding',
  idColumn: 'id',
  filter: undefined,
  ...more,
})

function searcher(
  tables: readonly TableSettings[],
  more: Partial<SearchedPipeline> & { vector?: readonly number[] } = {},
) {
  const { vector, ...settings } = more
  const pipeline: SearchedPipeline = {
    name: 'docs',
    address: connectionAddress((postgres as TestPostgres).uri('postgres')),
    poolSize: 4,
    tables,
    rerank: undefined,
    hybridEnabled: false,
    vectorWeight: 0.5,
    minSimilarity: 0,
    ...settings,
  }
  // A query is its vector.
  const embed = async (text: string) => vector ?? (JSON.parse(text) as number[])
  const made = new Searcher({ pipeline, embed, logger: pino({ level: 'silent' }), now: () => performance.now() })
  opened.push(made)
  return made
}

const filter = (...conditions: Filter['conditions']): Filter => ({ conditions, logic: 'AND' })

/** The ids of the best documents. */
async function ids(one: Searcher, query: readonly number[], topN: number, by?: Filter): Promise<string[]> {
  const { documents } = await one.search({ query: JSON.stringify(query), filter: by, topN }, never)
  return documents.map(({ id }) => id)
}

afterAll(async () => {
  for (const one of opened) await one.close()
  await postgres?.stop()
})

describe.skipIf(postgres === undefined)('searching by vectors', () => {
  beforeAll(async () => {
    await postgres?.run(`
      CREATE TABLE docs (id int PRIMARY KEY, content text, tenant text, price numeric, made date, tags text[], extra json, code char(3), embedding vector(3));
      INSERT INTO docs SELECT n, 'text ' || n, CASE n % 2 WHEN 0 THEN 'even' ELSE 'odd' END, n * 1.5, date '2026-01-01' + n, ARRAY['t' || n % 3], '{}', 'a' || n % 3,
        ARRAY[n, 10, 0]::vector FROM generate_series(1, 40) n;
      INSERT INTO docs (id, content) VALUES (100, 'without a vector');
      ANALYZE docs`)
  })

  test('returns the nearest rows with texts and similarities', async () => {
    const { documents, warnings } = await searcher([table('docs')]).search(
      { query: '[20,10,0]', filter: undefined, topN: 3 },
      never,
    )
    expect(documents.map(({ id, content, table: name }) => [id, content, name])).toEqual([
      ['20', 'text 20', 'public.docs'],
      ['21', 'text 21', 'public.docs'],
      ['19', 'text 19', 'public.docs'],
    ])
    expect(documents[0]?.score).toBeCloseTo(1, 5)
    expect(warnings).toEqual([])
  })

  test('returns every row that has a vector where more are wanted', async () => {
    expect(await ids(searcher([table('docs')]), [1, 10, 0], 1_000)).toHaveLength(40)
  })

  test.each<[Filter, number]>([
    [filter({ column: 'tenant', operator: '=', value: 'even' }), 20],
    [filter({ column: 'tenant', operator: '!=', value: 'even' }), 20],
    [filter({ column: 'price', operator: '<=', value: 15 }), 10],
    [filter({ column: 'id', operator: 'IN', value: [1, 2, 3, '4'] }), 4],
    [filter({ column: 'id', operator: 'NOT IN', value: [1, 2] }), 38],
    [filter({ column: 'id', operator: 'IN', value: [] }), 0],
    [filter({ column: 'content', operator: 'LIKE', value: 'text 1_' }), 10],
    [filter({ column: 'content', operator: 'ILIKE', value: 'TEXT 1%' }), 11],
    [filter({ column: 'made', operator: '>', value: '2026-02-01' }), 9],
    [filter({ column: 'tags', operator: '=', value: '{t1}' }), 14],
    [filter({ column: 'code', operator: '=', value: 'a1' }), 14],
    [filter({ column: 'tenant', operator: 'IS NULL' }), 0],
    [filter({ column: 'tenant', operator: '=', value: "even' OR 'a' = 'a" }), 0],
    [
      {
        logic: 'OR',
        conditions: [
          { column: 'id', operator: '=', value: 1 },
          { column: 'id', operator: '=', value: 2 },
        ],
      },
      2,
    ],
    [filter(), 40],
  ])('filters by %j', async (by, count) => {
    expect(await ids(searcher([table('docs')]), [1, 10, 0], 100, by)).toHaveLength(count)
  })

  test.each<[Filter, string]>([
    [filter({ column: 'absent', operator: '=', value: 1 }), 'filter.conditions[0].column: there is no column "absent"'],
    [filter({ column: 'id" = 1 OR true --', operator: '=', value: 1 }), 'there is no column'],
    [
      filter({ column: 'tenant', operator: '=', value: 'a' }, { column: 'id', operator: '=', value: 'abc' }),
      'filter.conditions[1]: column "id"',
    ],
    [
      filter({ column: 'id', operator: 'IN', value: [1, true] }),
      'filter.conditions[0]: column "id" of public.docs cannot be compared by IN',
    ],
    [filter({ column: 'id', operator: 'LIKE', value: '1%' }), 'cannot be compared by LIKE'],
    [filter({ column: 'extra', operator: '=', value: '{}' }), 'cannot be compared by ='],
    [filter({ column: 'tenant', operator: '=', value: 'a\0b' }), 'cannot be compared by ='],
    [
      filter({ column: 'content', operator: 'LIKE', value: 'a\\' }),
      'filter.conditions[0].value: must not end with a backslash',
    ],
  ])('refuses %j', async (by, message) => {
    const answer = searcher([table('docs')]).search({ query: '[1,2,3]', filter: by, topN: 1 }, never)
    await expect(answer).rejects.toMatchObject({ code: 'INVALID_REQUEST', message: expect.stringContaining(message) })
  })
})
