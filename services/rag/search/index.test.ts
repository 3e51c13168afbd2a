import { setTimeout } from 'node:timers/promises'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { connectionAddress } from '../../postgres/address.ts'
import { startPgvector } from '../../testing/pgvector.ts'
import type { TestPostgres } from '../../testing/postgres.ts'
import { startSilentProxy } from '../../testing/silent-proxy.ts'
import type { TableSettings } from '../configuration/types.ts'
import type { Filter } from '../request/filter.ts'
import { type Rerank, type SearchedPipeline, Searcher } from './index.ts'

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

type SearcherOptions = ConstructorParameters<typeof Searcher>[0]
type More = Partial<SearchedPipeline> & Pick<SearcherOptions, 'makeLexical' | 'limits'> & { readonly reranker?: Rerank }

const clock = 0

function searcher(tables: readonly TableSettings[], { makeLexical, reranker, limits, ...more }: More = {}) {
  const pipeline = {
    name: 'docs',
    address: connectionAddress((postgres as TestPostgres).uri('postgres')),
    poolSize: 4,
    tables,
    rerank: undefined,
    hybridEnabled: makeLexical !== undefined,
    vectorWeight: 0.5,
    minSimilarity: 0,
    exactTimeoutMs: 5_000,
    ...more,
  } satisfies SearchedPipeline
  const made = new Searcher({
    pipeline,
    // The text of a query is its vector.
    embed: async text => JSON.parse(text) as number[],
    ...(makeLexical && { makeLexical }),
    ...(reranker && { rerank: reranker }),
    ...(limits && { limits }),
    logger: pino({ level: 'silent' }),
    now: () => clock,
  })
  opened.push(made)
  return made
}

/** Finds words in all rows. Rows with higher numbers have higher scores. */
const byNumber: NonNullable<More['makeLexical']> = ({ table: { schema, name, rowExpression } }) => ({
  warnings: [],
  prepare: async () => (condition, _, limit) => ({
    sql: `SELECT ${rowExpression} AS row_key, n::float8 AS score FROM "${schema}"."${name}" AS t WHERE ${condition ?? 'true'} ORDER BY n DESC LIMIT ${limit}`,
  }),
})

const byId: NonNullable<More['makeLexical']> = ({ table: { schema, name, rowExpression } }) => ({
  warnings: [],
  prepare: async () => (condition, _, limit) => ({
    sql: `SELECT ${rowExpression} AS row_key, id::float8 AS score FROM "${schema}"."${name}" AS t WHERE ${condition ?? 'true'} ORDER BY id DESC LIMIT ${limit}`,
  }),
})

const filter = (...conditions: Filter['conditions']): Filter => ({ conditions, logic: 'AND' })

/** The ids of the best documents. */
async function ids(one: Searcher, query: readonly number[], topN: number, by?: Filter): Promise<string[]> {
  const { documents } = await one.search({ query: JSON.stringify(query), filter: by, topN }, never)
  return documents.map(({ id }) => id)
}

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})
afterAll(() => postgres?.stop())

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

  test('if an exact scan takes too long, answers from the index and reports this', async () => {
    await postgres?.run(`
      CREATE FUNCTION slow(n int) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT pg_sleep(0.002) IS NOT NULL';
      CREATE TABLE far (id int PRIMARY KEY, content text, embedding vector(3));
      INSERT INTO far SELECT n, 'text ' || n, ARRAY[n, 10, 0]::vector FROM generate_series(1, 3000) n;
      CREATE INDEX ON far USING hnsw (embedding vector_cosine_ops);
      ANALYZE far`)
    const slow = table('far', { filter: { kind: 'sql' as const, text: 'id > 2900 AND slow(id)' } })
    for (const more of [{}, { makeLexical: byId }]) {
      const search = async (exactTimeoutMs: number, timeoutMs?: number) =>
        searcher([slow], { ...more, exactTimeoutMs }).search(
          { query: '[1,10,0]', filter: undefined, topN: 3, ...(timeoutMs && { timeoutMs }) },
          never,
        )
      const complete = await search(10_000)
      expect([complete.isIncomplete, complete.documents.length, complete.warnings]).toEqual([false, 3, []])
      for (const truncated of [await search(50), await search(10_000, 200)]) {
        expect([truncated.isIncomplete, truncated.documents.length]).toEqual([true, 3])
        for (const { id } of truncated.documents) expect(Number(id)).toBeGreaterThan(2_900)
        expect(truncated.warnings).toEqual([expect.stringContaining('search.exact_timeout')])
      }
    }
    // The slow part is not an exact scan, so no row is missing.
    const slowWords: typeof byId = options => ({
      warnings: [],
      prepare: async () => (condition, _, limit) => ({
        sql: `SELECT ${options.table.rowExpression} AS row_key, 1::float8 AS score FROM far AS t WHERE ${condition ?? 'true'} AND id < 60 AND slow(id) LIMIT ${limit}`,
      }),
    })
    const one = searcher([table('far')], { makeLexical: slowWords, exactTimeoutMs: 50 })
    const complete = await one.search({ query: '[1,10,0]', filter: undefined, topN: 3 }, never)
    expect([complete.isIncomplete, complete.documents.length]).toEqual([false, 3])
  })

  test('columns may have the names that the statements use', async () => {
    const names = ['row_key', 'score', 'similarity', 'accepted', 'content', 'nearest', 't', 'distance']
    const own = ['distance', 'similarity', 'accepted'].flatMap(name => [`~${name}`, `~~${name}`])
    const quoted = [...names, ...own].map(name => `"${name}"`)
    // The angles between vectors are large, so that rounding does not decide which vector is nearest.
    await postgres?.run(`
      CREATE TABLE taken (id int PRIMARY KEY, embedding vector(3), "~id" text DEFAULT '1', ${quoted.map(name => `${name} text DEFAULT '1'`).join()});
      INSERT INTO taken (id, embedding) SELECT n, ARRAY[n, 1000, 0]::vector FROM generate_series(1, 2000) n;
      INSERT INTO taken (id, embedding, "~distance") SELECT n, ARRAY[n, 1000, 0]::vector, '2' FROM generate_series(2001, 2005) n;
      CREATE INDEX ON taken USING hnsw (embedding vector_cosine_ops);
      CREATE INDEX ON taken USING hnsw (embedding vector_l2_ops);
      ANALYZE taken`)
    const text = quoted.map(name => `${name} = '1'`).join(' AND ')
    const filtered = { filter: { kind: 'sql' as const, text } }
    for (const textColumn of ['content', '~distance', '~accepted', 'row_key'])
      expect(await ids(searcher([table('taken', { ...filtered, textColumn })]), [1990, 1000, 0], 1)).toEqual(['1990'])
    for (const idColumn of ['~distance', '~similarity'])
      expect(await ids(searcher([table('taken', { ...filtered, idColumn })]), [1990, 1000, 0], 1)).toEqual(['1'])
  })

  test.each([1, 2])('recovers from a silent network, with %i connections', async poolSize => {
    const proxy = await startSilentProxy((postgres as TestPostgres).port)
    const address = connectionAddress(`postgresql://postgres@127.0.0.1:${proxy.port}/postgres`)
    const one = searcher([table('docs')], { address, poolSize, limits: { readMs: 500, silenceMs: 200 } })
    const searchWithin = (ms: number) =>
      one.search({ query: '[20,10,0]', filter: undefined, topN: 1 }, AbortSignal.timeout(ms))
    const many = (ms: number) => Promise.allSettled(Array.from({ length: 8 }, () => searchWithin(ms)))
    // A search that uses a silent connection ends by its own timeout.
    const answered = () =>
      expect
        .poll(async () => (await searchWithin(1_000).catch(() => undefined))?.documents.length, { timeout: 20_000 })
        .toBe(1)
    const first = many(200)
    await expect.poll(() => one.pool.open).toBeGreaterThan(0)
    // The network is silent while the table is described for all callers.
    proxy.silence()
    await first
    await answered()
    proxy.silence()
    await many(200)
    await answered()
    await proxy.stop()
  })

  test("reports a silent database before the client's timeout", async () => {
    const proxy = await startSilentProxy((postgres as TestPostgres).port)
    const address = connectionAddress(`postgresql://postgres@127.0.0.1:${proxy.port}/postgres`)
    const one = searcher([table('docs')], { address, poolSize: 1, limits: { readMs: 2_000, silenceMs: 50 } })
    expect(await one.health(never)).toEqual({ reachable: true, warnings: [] })
    proxy.silence()
    const began = performance.now()
    const silent = { reachable: false, error: 'did not respond in time', warnings: [] }
    expect(await one.health(AbortSignal.timeout(50))).toEqual(silent)
    expect(performance.now() - began).toBeLessThan(1_500)
    await proxy.stop()
  })

  test('returns every row that has a vector if more are requested', async () => {
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
    [filter({ column: 'absent', operator: '=', value: 1 }), 'filter.conditions[0].column: unknown column "absent"'],
    [filter({ column: 'id" = 1 OR true --', operator: '=', value: 1 }), 'unknown column'],
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

describe.skipIf(postgres === undefined)('tables of other kinds', () => {
  beforeAll(async () => {
    const row = (n: string) => `${n}, 'text ' || ${n}, ARRAY[${n}, 10, 0]::vector`
    await postgres?.run(`
      CREATE TABLE keyed (part int, n int, content text, embedding vector(3), PRIMARY KEY (part, n));
      INSERT INTO keyed SELECT 7, ${row('n')} FROM generate_series(1, 20) n;
      CREATE TABLE bare (n int, content text, embedding halfvec(3));
      INSERT INTO bare SELECT ${row('n')} FROM generate_series(1, 20) n;
      CREATE TABLE parted (id int, n int, content text, embedding vector(3)) PARTITION BY LIST ((n % 2));
      CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0);
      CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
      INSERT INTO parted SELECT n, ${row('n')} FROM generate_series(1, 20) n;
      CREATE VIEW viewed AS SELECT n AS id, n, content, embedding FROM keyed;
      CREATE VIEW without_id AS SELECT n, content, embedding FROM keyed;
      CREATE DOMAIN small AS int CHECK (VALUE < 100);
      CREATE TABLE odd (id int, n small, code bit(3), content text, embedding vector);
      INSERT INTO odd SELECT n, n, B'101', 'text ' || n, ARRAY[n, 10, 0]::vector FROM generate_series(1, 5) n;
      INSERT INTO odd VALUES (6, 6, B'111', 'other dimensions', '[1,2]'), (7, 7, B'000', 'no direction', '[0,0,0]');
      CREATE ROLE reader LOGIN; GRANT SELECT (n, content) ON bare TO reader`)
  })

  test.each([
    ['keyed', ['7,10', '7,11', '7,9'], 'table keyed: has no column id; its primary key identifies documents'],
    ['bare', ['(0,10)', '(0,11)', '(0,9)'], 'table bare: has no column id; ctid identifies documents'],
    ['parted', ['10', '11', '9'], undefined],
    ['viewed', ['10', '11', '9'], undefined],
    ['odd', ['5', '4', '3'], undefined],
  ])('%s', async (name, expected, warning) => {
    for (const more of [{}, { makeLexical: byNumber, vectorWeight: 0.99 }]) {
      const { documents, warnings } = await searcher([table(name)], more).search(
        { query: '[10,10,0]', filter: undefined, topN: 3 },
        never,
      )
      expect(documents.map(({ id }) => id)).toEqual(expected)
      expect(warnings).toEqual(warning === undefined ? [] : [expect.stringContaining(warning)])
    }
  })

  test('filters by the base type of a domain, and by types whose name alone means another', async () => {
    const by = filter({ column: 'n', operator: '=', value: 2 }, { column: 'code', operator: '=', value: '101' })
    expect(await ids(searcher([table('odd')]), [1, 10, 0], 5, by)).toEqual(['2'])
  })

  test.each([
    ['absent', {}, 'table absent: does not exist'],
    ['docs', { schema: 'nowhere' }, 'table nowhere.docs: does not exist'],
    ['docs', { textColumn: 'words' }, 'table docs: has no column words'],
    ['docs', { vectorColumn: 'content' }, 'column content is of type text; only vector and halfvec can be searched'],
    ['without_id', {}, 'set id_column'],
    [
      'docs',
      { filter: { kind: 'sql' as const, text: 'true) OR (true' } },
      'table docs: filter is not one SQL condition',
    ],
  ])('reports the problem of %s (%j)', async (name, more, message) => {
    const one = searcher([table(name, more)])
    const answer = one.search({ query: '[1,2,3]', filter: undefined, topN: 1 }, never)
    await expect(answer).rejects.toMatchObject({ code: 'EXECUTION_ERROR', message: expect.stringContaining(message) })
    expect(await one.health(never)).toMatchObject({ reachable: false, error: expect.stringContaining(message) })
  })

  test('an error names the role and the column that the role may not read', async () => {
    const address = connectionAddress((postgres as TestPostgres).uri('reader'))
    const answer = searcher([table('bare')], { address }).search(
      { query: '[1,2,3]', filter: undefined, topN: 1 },
      never,
    )
    await expect(answer).rejects.toThrow('the role reader may not read column embedding')
  })

  test('an error names both numbers of dimensions', async () => {
    const answer = searcher([table('docs')]).search({ query: '[1,2]', filter: undefined, topN: 1 }, never)
    await expect(answer).rejects.toThrow('vectors of 2 dimensions, but column embedding of public.docs has 3')
  })

  test('merges rows with the same id in a table, and equal texts of two tables', async () => {
    await postgres?.run(`
      CREATE TABLE pieces (id text, n int, content text, embedding vector(3));
      INSERT INTO pieces SELECT CASE WHEN n < 90 THEN 'long' ELSE 'p' || n END, n, 'text ' || n, ARRAY[n, 10, 0]::vector FROM generate_series(30, 99) n`)
    for (const more of [{}, { makeLexical: byNumber, vectorWeight: 0.99 }]) {
      const found = await ids(searcher([table('pieces')], more), [50, 10, 0], 3)
      expect(found[0]).toBe('long')
      expect(new Set(found).size).toBe(3)
    }
    const both = searcher([table('keyed'), table('bare')])
    const { documents } = await both.search({ query: '[10,10,0]', filter: undefined, topN: 4 }, never)
    expect(documents.map(({ content }) => content)).toEqual(['text 10', 'text 11', 'text 9', 'text 12'])
  })

  test('queries words and vectors once if many rows are the same document', async () => {
    await postgres?.run(`
      CREATE TABLE chunks (id int, n int, content text, embedding vector(3));
      INSERT INTO chunks SELECT n / 20, n, 'text ' || n, ARRAY[n, 10, 0]::vector FROM generate_series(0, 79) n; ANALYZE chunks`)
    let calls = 0
    const counting: typeof byNumber = options => ({
      warnings: [],
      prepare: async (query, signal) => {
        const search = await byNumber(options).prepare(query, signal)
        return (...args) => {
          calls += 1
          return search?.(...args) ?? { sql: '' }
        }
      },
    })
    const one = searcher([table('chunks')], { makeLexical: counting })
    expect(await ids(one, [79, 10, 0], 3)).toEqual(['3', '2', '1'])
    expect(calls).toBe(1)
    expect(await ids(one, [79, 10, 0], 1)).toEqual(['3'])
  })

  test('fuses words and vectors by rank, omits dissimilar documents, and disables either by its weight', async () => {
    const both = await searcher([table('viewed')], { makeLexical: byNumber }).search(
      { query: '[10,10,0]', filter: filter({ column: 'n', operator: '<=', value: 12 }), topN: 12 },
      never,
    )
    // Order by vectors: 10, 11, 9, 12, ...; by words: 12, 11, 10, ...
    expect(both.documents.slice(0, 3).map(({ id }) => id)).toEqual(['10', '11', '12'])
    expect(both.documents[0]?.score).toBeCloseTo(0.5 / 61 + 0.5 / 63, 8)
    expect(both.documents).toHaveLength(12)
    expect(await ids(searcher([table('viewed')], { minSimilarity: 0.9999 }), [10, 10, 0], 5)).toEqual(['10'])
    const words = searcher([table('viewed')], { makeLexical: byNumber, vectorWeight: 0 })
    expect(await ids(words, [10, 10, 0], 2)).toEqual(['20', '19'])
    const vectors = searcher([table('viewed')], { makeLexical: byNumber, vectorWeight: 1 })
    expect(await ids(vectors, [10, 10, 0], 1)).toEqual(['10'])
  })

  test("reranks documents, and keeps the search's order if reranking fails", async () => {
    const rerank = { depth: 3 } as unknown as SearchedPipeline['rerank'] // only this part of the settings is read here
    const by = (reranker: Rerank) => searcher([table('viewed')], { rerank, reranker })
    const backwards = by(async (_, texts) => texts.map((_text, index) => ({ index, score: index })).reverse())
    expect(await ids(backwards, [10, 10, 0], 2)).toEqual(['9', '11'])
    const failing = by(async () => Promise.reject(new Error('no')))
    const { documents, warnings } = await failing.search({ query: '[10,10,0]', filter: undefined, topN: 2 }, never)
    expect(documents.map(({ id }) => id)).toEqual(['10', '11'])
    expect(warnings).toEqual(['reranking failed'])
  })
})

describe.skipIf(postgres === undefined)('indexes and changes', () => {
  const part = (n: string, seed: number) => `abs(sin(${n} * ${seed}.9898) * 43758.5)::numeric % 1`
  /** The number of a row is the angle of its vector. */
  const vectorOf = (n: string) =>
    `ARRAY[3 * cos(${n} / 2600.0), 3 * sin(${n} / 2600.0), ${[2, 3, 5].map(seed => part(n, seed)).join(', ')}]`
  const query = [2, 2, 0.3, 0.4, 0.5]
  const rowsOf = async <Row>(sql: string) => (await (postgres as TestPostgres).run(sql)).rows as Row[]
  const nearest = async (name: string, condition: string, { operator = '<=>', to = query } = {}) => {
    const distance = `(embedding ${operator} '${JSON.stringify(to)}') + 0`
    const rows = await rowsOf<{ id: number }>(`SELECT id FROM ${name} WHERE ${condition} ORDER BY ${distance} LIMIT 10`)
    return rows.map(({ id }) => String(id))
  }
  const scans = async (index: string) => {
    // A connection reports its counts after it has been idle for a second, or when it ends.
    await Promise.all(opened.splice(0).map(one => one.close()))
    let count = -1
    await expect
      .poll(async () => {
        const before = count
        const statistics = `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = '${index}'`
        count = Number((await rowsOf<{ idx_scan: string }>(statistics))[0]?.idx_scan)
        return count > 0 && count === before
      })
      .toBe(true)
    return count
  }

  beforeAll(async () => {
    await postgres?.run(`
      CREATE TABLE many (id int PRIMARY KEY, n int, content text, embedding vector(5));
      INSERT INTO many SELECT n, n, 'text ' || n, ${vectorOf('n')}::vector FROM generate_series(1, 8000) n;
      CREATE INDEX many_cosine ON many USING hnsw (embedding vector_cosine_ops) WITH (ef_construction = 40);
      CREATE TABLE many_half (id int PRIMARY KEY, n int, content text, embedding vector);
      INSERT INTO many_half SELECT n, n, content, embedding FROM many;
      CREATE INDEX many_half_cast ON many_half USING hnsw ((embedding::halfvec(5)) halfvec_l2_ops) WITH (ef_construction = 40);
      CREATE TABLE many_part (id int PRIMARY KEY, n int, content text, embedding halfvec(5));
      INSERT INTO many_part SELECT n, n, content, embedding FROM many;
      CREATE INDEX many_part_index ON many_part USING ivfflat (embedding halfvec_cosine_ops) WITH (lists = 20) WHERE n > 1000;
      ANALYZE`)
  })

  test('uses the index if the filter accepts many rows', async () => {
    const by = filter({ column: 'n', operator: '>', value: 500 })
    expect(await ids(searcher([table('many')]), query, 10)).toEqual(await nearest('many', 'true'))
    expect(await ids(searcher([table('many')]), query, 10, by)).toEqual(await nearest('many', 'n > 500'))
    expect(await scans('many_cosine')).toBeGreaterThan(0)
  })

  test('misses no row if the filter accepts no row near the query', async () => {
    const by = filter({ column: 'n', operator: '<', value: 6_000 })
    const to = [-3, 0, 0.5, 0.5, 0.5]
    const exact = await nearest('many', 'n < 6000', { to })
    expect(await nearest('many', 'true', { to })).not.toEqual(exact)
    expect(await ids(searcher([table('many')]), to, 10, by)).toEqual(exact)
    const both = searcher([table('many')], { makeLexical: byNumber, vectorWeight: 0.999 })
    expect(await ids(both, to, 10, by)).toEqual(exact)
  })

  test("uses an index on a cast with the index's own operator, and compares the original vectors", async () => {
    expect(await ids(searcher([table('many_half')]), query, 10)).toEqual(
      await nearest('many_half', 'true', { operator: '<->' }),
    )
    expect(await scans('many_half_cast')).toBeGreaterThan(0)
  })

  test('uses a partial index only if the configured filter implies its condition', async () => {
    const sql = { kind: 'sql' as const, text: 'n > 2000 -- not the old ones' }
    const inside = searcher([table('many_part', { filter: sql })])
    const by = filter({ column: 'n', operator: '<', value: 7_500 })
    expect(await ids(inside, query, 10, by)).toEqual(await nearest('many_part', 'n > 2000 AND n < 7500'))
    expect(await scans('many_part_index')).toBeGreaterThan(0)
    expect(await ids(searcher([table('many_part')]), query, 10)).toEqual(await nearest('many_part', 'true'))
  })

  test('stops reading at the first row that is not similar enough', async () => {
    const before = await rowsOf<{ read: number }>(`SELECT pg_stat_get_tuples_returned('many'::regclass)::int AS read`)
    const one = searcher([table('many')], { minSimilarity: 0.9999 })
    const { documents } = await one.search({ query: JSON.stringify(query), filter: undefined, topN: 10 }, never)
    expect(documents.length).toBeLessThan(10)
    await one.close()
    await setTimeout(200)
    const after = await rowsOf<{ read: number }>(`SELECT pg_stat_get_tuples_returned('many'::regclass)::int AS read`)
    expect((after[0]?.read ?? 0) - (before[0]?.read ?? 0)).toBeLessThan(8_000)
  })

  test('uses the index of a table whose vectors are stored out of line', async () => {
    await postgres?.run(`
      CREATE TABLE wide (id int PRIMARY KEY, content text, embedding vector(600));
      ALTER TABLE wide ALTER embedding SET STORAGE EXTERNAL;
      INSERT INTO wide SELECT n, 'text ' || n, array_fill(n % 50 + 1, ARRAY[300])::vector || array_fill(n % 60 + 1, ARRAY[300])::vector FROM generate_series(1, 2500) n;
      CREATE INDEX wide_index ON wide USING ivfflat (embedding vector_cosine_ops) WITH (lists = 5);
      ANALYZE wide`)
    const to = [...Array(300).fill(1), ...Array(300).fill(2)]
    expect(await ids(searcher([table('wide')]), to, 5)).toHaveLength(5)
    expect(await scans('wide_index')).toBeGreaterThan(0)
  })

  test('never returns a row outside a filter to any of 64 requests at once', async () => {
    const one = searcher([table('many')], { makeLexical: byNumber })
    const answers = await Promise.all(
      Array.from({ length: 64 }, async (_, tenant) => {
        const by = filter({ column: 'n', operator: 'IN', value: [tenant, tenant + 64, tenant + 128, tenant + 192] })
        const { documents } = await one.search({ query: JSON.stringify(query), filter: by, topN: 10 }, never)
        return documents.map(({ id }) => Number(id) % 64)
      }),
    )
    for (const [tenant, found] of answers.entries()) expect(new Set(found)).toEqual(new Set([tenant]))
  })

  test('detects that an index, a column, a table or the database was deleted and created again', async () => {
    await postgres?.run(`CREATE TABLE brief AS SELECT * FROM many; INSERT INTO brief SELECT n + 8000, n, 'more ' || n, embedding FROM many WHERE n <= 3000;
      CREATE INDEX brief_index ON brief USING hnsw (embedding vector_cosine_ops) WITH (ef_construction = 40); ANALYZE brief`)
    const one = searcher([table('brief')])
    const search = () => one.search({ query: JSON.stringify(query), filter: undefined, topN: 5 }, never)
    const { documents } = await search()
    await postgres?.run('DROP INDEX brief_index')
    expect((await search()).documents).toEqual(documents)
    expect((await one.health(never)).warnings).toEqual([
      'table public.brief: no valid index on column embedding; each search reads the whole table',
    ])
    await postgres?.run('ALTER TABLE brief ALTER COLUMN content TYPE varchar(100)')
    expect((await search()).documents).toEqual(documents)
    await postgres?.run('ALTER TABLE brief RENAME TO gone')
    await expect(search()).rejects.toThrow('table brief: does not exist')
    await postgres?.run('ALTER TABLE gone RENAME TO brief')
    expect((await search()).documents).toEqual(documents)
    await postgres?.crash()
    await expect(search()).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      message: 'the database cannot be reached',
      status: 503,
    })
    expect(await one.health(never)).toMatchObject({ reachable: false })
    await postgres?.start()
    expect((await search()).documents).toEqual(documents)
  })
})
