/** The lexical arm on a real Postgres: results, order, and behaviour without statistics or indexes. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../testing/postgres.ts'
import { startArm, type TestArm } from './testing/arm.ts'

let postgres: TestPostgres
const arms: TestArm[] = []

async function armOf(name: string): Promise<TestArm> {
  const arm = await startArm(postgres, name)
  arms.push(arm)
  return arm
}

beforeAll(async () => {
  postgres = await startPostgres('16')
})

afterAll(async () => {
  await Promise.all(arms.map(arm => arm.end()))
  await postgres.stop()
})

const stored = (name: string, configuration = 'english') =>
  `CREATE TABLE ${name} (id integer PRIMARY KEY, tenant integer, content text, tsv tsvector GENERATED ALWAYS AS (to_tsvector('${configuration}', content)) STORED);
   CREATE INDEX ON ${name} USING gin (tsv);`

describe('ranking', () => {
  test('a rare word has a higher weight than a frequent word, and the shorter text is first', async () => {
    await postgres.run(`${stored('ranked')}
      INSERT INTO ranked (id, content) SELECT i, 'common words of every text number ' || i FROM generate_series(1, 500) i;
      INSERT INTO ranked (id, content) VALUES (1001, 'flutter'), (1002, 'flutter in a much longer text that says many other things besides'), (1003, 'common common common common');
      ANALYZE ranked`)
    const arm = await armOf('ranked')
    expect((await arm.search('common fluttering')).slice(0, 3)).toEqual(['1001', '1002', '1003'])
    expect(await arm.search('nothing like it')).toEqual([])
    expect(await arm.search('the of and')).toEqual([])
    expect(await arm.search('flutter\0common')).toHaveLength(10)
    expect(await arm.search("'); DROP TABLE ranked; -- \\ & | ! :* <->")).toEqual([])
  })

  test('scores equal the formula', async () => {
    await postgres.run(`${stored('formula', 'simple')}
      INSERT INTO formula (id, content) VALUES (1, 'a a b'), (2, 'a c d e'), (3, 'x y z')`)
    const arm = await armOf('formula')
    const weight = Math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    const score = (occurrences: number, length: number) =>
      (weight * 2.2 * occurrences) / (occurrences + 1.2 * (0.25 + (0.75 * length) / 3))
    const scores = await arm.scores('a')
    expect(scores.get('1')).toBeCloseTo(score(2, 2), 5)
    expect(scores.get('2')).toBeCloseTo(score(1, 4), 5)
  })

  test('ignores tsvector weights', async () => {
    await postgres.run(`CREATE TABLE weighted (id integer PRIMARY KEY, content text,
        tsv tsvector GENERATED ALWAYS AS (setweight(to_tsvector('english', content), 'A')) STORED);
      CREATE INDEX ON weighted USING gin (tsv); INSERT INTO weighted VALUES (1, 'one word of several others'), (2, 'word')`)
    expect(await (await armOf('weighted')).search('word')).toEqual(['2', '1'])
  })

  test('orders rows with equal scores by key', async () => {
    await postgres.run(
      `${stored('tied')} INSERT INTO tied (id, content) SELECT i, 'equal texts' FROM generate_series(9, 1, -1) i`,
    )
    const arm = await armOf('tied')
    expect(await arm.search('equal', { limit: 4 })).toEqual(['1', '2', '3', '4'])
  })
})

test('columns may have the names that the statements use', async () => {
  const names = [
    ...[
      'marked',
      'part',
      'place',
      'lexeme',
      'positions',
      'scored',
      'score',
      'row_key',
      'weight',
      'q',
      'rows',
      'number',
      'm',
    ],
    ...['c', 'd', 'h', 'l', 't', 'w', '~marked', '~~marked', '~part', '~place'],
  ].map(name => `"${name}"`)
  const condition = names.map(name => `${name} = 1`).join(' AND ')
  await postgres.run(`CREATE TABLE taken (id integer PRIMARY KEY, content text, title text, ${names.map(name => `${name} integer DEFAULT 1`).join()});
    INSERT INTO taken (id, content) VALUES (1, 'flutter of wings'), (2, 'wings'), (3, 'a jet flutter');
    INSERT INTO taken (id, content, marked) VALUES (4, 'flutter', 2);
    CREATE TABLE taken_stored (LIKE taken INCLUDING ALL, tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED);
    INSERT INTO taken_stored SELECT * FROM taken;
    CREATE TABLE taken_texts (id integer PRIMARY KEY, content text, part text DEFAULT '', place text DEFAULT '', marked text DEFAULT '');
    INSERT INTO taken_texts (id, content) SELECT id, content FROM taken;
    CREATE INDEX ON taken USING gin (to_tsvector('english', content));
    CREATE INDEX ON taken_stored USING gin (tsv);
    CREATE INDEX ON taken_texts USING gin (to_tsvector('english', content || part || place || marked))`)
  for (const name of ['taken', 'taken_stored']) {
    const arm = await armOf(name)
    for (const matching of [undefined, 1, 1_000_000])
      expect([name, (await arm.search('flutter wings', { condition, matching })).toSorted()]).toEqual([
        name,
        ['1', '2', '3'],
      ])
  }
  expect((await (await armOf('taken_texts')).search('flutter wings')).toSorted()).toEqual(['1', '2', '3', '4'])
})

test("uses the index's text search configuration, with its stemming and stop words", async () => {
  await postgres.run(`${stored('deutsch', 'german')} INSERT INTO deutsch (id, content) VALUES (1, 'Die Häuser der Stadt'), (2, 'Das Boot auf dem See');
    CREATE TABLE plain (id integer PRIMARY KEY, content text);
    CREATE INDEX ON plain USING gin (to_tsvector('simple', content));
    INSERT INTO plain VALUES (1, 'the houses'), (2, 'the house')`)
  const [deutsch, plain] = [await armOf('deutsch'), await armOf('plain')]
  expect(await deutsch.search('ein Haus und der die das')).toEqual(['1'])
  expect(await plain.search('the house')).toEqual(['2', '1'])
  expect(await plain.search('houses')).toEqual(['1'])
})

describe('filters', () => {
  beforeAll(async () => {
    await postgres.run(`${stored('filtered')} INSERT INTO filtered (id, tenant, content)
      SELECT i, i % 400, 'frequent words, word' || i % 7 || CASE WHEN i % 50 = 0 THEN ' seldom' ELSE '' END || CASE WHEN i % 1000 = 100 THEN ' unique' ELSE '' END FROM generate_series(1, 6000) i;
      CREATE INDEX ON filtered (tenant);
      CREATE TABLE computed AS SELECT id, tenant, content FROM filtered;
      CREATE INDEX ON computed USING gin (to_tsvector('english', content));
      ANALYZE filtered, computed`)
  })

  test.each([
    ['of unknown selectivity', undefined],
    ['that matches few rows', 15],
    ['that matches many rows', 3_000],
  ])('a condition %s', async (_, matching) => {
    for (const table of ['filtered', 'computed']) {
      const arm = await armOf(table)
      const options = { condition: 't.tenant = 100', limit: 50, ...(matching !== undefined && { matching }) }
      const found = await arm.search('seldom unique frequent', options)
      expect(found.slice(0, 3)).toEqual(['100', '2100', '4100'])
      expect(found).toHaveLength(15)
      expect(found.every(id => Number(id) % 400 === 100)).toBe(true)
    }
  })
})

describe('unusual tables and indexes', () => {
  test('no index: no search by words, and one warning with the statement that creates an index', async () => {
    await postgres.run(
      `CREATE TABLE bare (id integer PRIMARY KEY, content text); INSERT INTO bare VALUES (1, 'some words')`,
    )
    const arm = await armOf('bare')
    expect(await arm.search('words')).toEqual([])
    expect(await arm.search('words')).toEqual([])
    const [warning] = arm.warnings
    expect(arm.warnings).toHaveLength(1)
    expect(arm.arm.warnings).toEqual([warning])
    await postgres.run(String(warning).split('create one: ')[1] ?? '')
    arm.clock.now += 30_001
    await arm.search('words')
    await expect.poll(() => arm.search('words')).toEqual(['1'])
    expect(arm.arm.warnings).toEqual([])
  })

  test('a view: searches only vectors, with a warning', async () => {
    await postgres.run('CREATE TABLE seen (id integer, content text); CREATE VIEW view AS SELECT * FROM seen')
    const arm = await armOf('view')
    expect(await arm.search('words')).toEqual([])
    expect(arm.warnings).toEqual([
      'public.view is not a table, so it has no index for words, and only vectors are searched',
    ])
  })

  test('a large table with row-level security: does not search, because Postgres would read the whole table', async () => {
    await postgres.run(`CREATE TABLE guarded (id integer PRIMARY KEY, content text); CREATE INDEX ON guarded USING gin (to_tsvector('english', content));
      INSERT INTO guarded SELECT i, 'some words' FROM generate_series(1, 12000) i; ANALYZE guarded;
      CREATE ROLE reader LOGIN; GRANT SELECT ON guarded TO reader; ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON guarded USING (true)`)
    const arm = await startArm(postgres, 'guarded', 'reader')
    arms.push(arm)
    expect(await arm.search('words')).toEqual([])
    expect(arm.warnings[0]).toContain('row-level security')
    await postgres.run('DELETE FROM guarded WHERE id > 100; ANALYZE guarded')
    arm.clock.now += 30_001
    await arm.search('words')
    await expect.poll(() => arm.search('words', { limit: 2 })).toEqual(['1', '10'])
  })

  test('invalid and partial indexes: does not use them', async () => {
    await postgres.run(`CREATE TABLE broken (id integer PRIMARY KEY, content text); INSERT INTO broken VALUES (7, 'some words');
      CREATE INDEX ON broken USING gin (to_tsvector('english', content)) WHERE id > 5;
      CREATE INDEX invalid ON broken USING gin (to_tsvector('english', content));
      UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'invalid'::regclass`)
    expect(await (await armOf('broken')).search('words')).toEqual([])
  })

  test('a table that grows without ANALYZE while its statistics are cached', async () => {
    await postgres.run(
      `${stored('growing')} ALTER TABLE growing SET (autovacuum_enabled = false); INSERT INTO growing (id, content) VALUES (1, 'first words')`,
    )
    const arm = await armOf('growing')
    expect(await arm.search('words')).toEqual(['1'])
    await postgres.run(
      `INSERT INTO growing (id, content) SELECT i, 'more words ' || i FROM generate_series(2, 5000) i; INSERT INTO growing (id, content) VALUES (9999, 'rare words')`,
    )
    expect(await arm.search('rare words')).toHaveLength(10)
    arm.clock.now += 30_001
    expect(await arm.search('rare words')).toHaveLength(10)
    await expect.poll(async () => (await arm.search('rare words'))[0]).toBe('9999')
  })

  test('vectors without positions: reports them', async () => {
    await postgres.run(`CREATE TABLE stripped (id integer PRIMARY KEY, content text, tsv tsvector GENERATED ALWAYS AS (strip(to_tsvector('english', content))) STORED);
      CREATE INDEX ON stripped USING gin (tsv); INSERT INTO stripped (id, content) VALUES (1, 'words')`)
    const arm = await armOf('stripped')
    await arm.search('words')
    expect(arm.warnings[0]).toContain('has no positions')
  })
})

test('a partitioned table: uses an index on all its partitions', async () => {
  await postgres.run(`CREATE TABLE parts (id integer, content text, tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED) PARTITION BY RANGE (id);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100); CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200);
    CREATE INDEX ON parts USING gin (tsv);
    INSERT INTO parts (id, content) SELECT i, 'words of ' || CASE WHEN i IN (5, 150) THEN 'interest' ELSE 'none' END FROM generate_series(1, 199) i; ANALYZE parts`)
  expect(await (await armOf('parts')).search('interesting', { limit: 5 })).toEqual(['150', '5'])
})

test('reads frequencies from the index, and counts no rows', async () => {
  await postgres.run(
    `${stored('counted')} INSERT INTO counted (id, content) SELECT i, (SELECT string_agg(md5((i * n)::text), ' ') FROM generate_series(1, 8) n) || CASE WHEN i % 50 = 0 THEN ' seldom' ELSE '' END FROM generate_series(1, 3000) i; SELECT gin_clean_pending_list('counted_tsv_idx')`,
  )
  const arm = await armOf('counted')
  expect(await arm.search('seldom', { limit: 1 })).toEqual(['100'])
  expect(arm.statements.filter(text => text.startsWith('EXPLAIN'))).toHaveLength(1)
  expect(arm.statements.filter(text => text.includes('count(*) FROM (SELECT FROM m'))).toEqual([])
})

test("caches the table's data: a repeated query runs only its own statement", async () => {
  const arm = await armOf('ranked')
  await arm.search('common flutter')
  const before = arm.statements.length
  await arm.search('common flutter')
  expect(arm.statements.length).toBe(before)
})

const collection = join(fileURLToPath(new URL('../../../../', import.meta.url)), '../shared/rag-quality')

describe.skipIf(!existsSync(collection))('a public collection with judgements (skipped if it is missing)', () => {
  const linesOf = (name: string) => readFileSync(join(collection, name), 'utf8').trim().split('\n')

  beforeAll(async () => {
    const documents = linesOf('corpus.jsonl').map(
      line => JSON.parse(line) as { id: string; title: string; text: string },
    )
    const rows = JSON.stringify(
      documents.map(({ id, title, text }) => ({ id: Number(id), content: `${title} ${text}` })),
    )
    await postgres.run(`${stored('cranfield')} INSERT INTO cranfield (id, content) SELECT id, content FROM json_to_recordset($json$${rows}$json$) AS r (id integer, content text);
      CREATE TABLE expression AS SELECT id, content FROM cranfield; CREATE INDEX ON expression USING gin (to_tsvector('english', content)); ANALYZE cranfield, expression`)
  })

  // Computing the vectors of a table takes ten seconds.
  const tables = process.env.ESPALIER_SOAK === '1' ? ['cranfield', 'expression'] : ['cranfield']
  test.each(tables)(
    'nDCG@10 of %s is no lower than that of exact BM25',
    async name => {
      const judgements = new Map<string, Map<string, number>>()
      for (const line of linesOf('qrels.tsv').slice(1)) {
        const [query = '', document = '', score] = line.split('\t')
        judgements.set(query, (judgements.get(query) ?? new Map()).set(document, Number(score)))
      }
      const arm = await armOf(name)
      const gains: number[] = []
      for (const line of linesOf('queries.jsonl')) {
        const { id, text } = JSON.parse(line) as { id: string; text: string }
        const judged = judgements.get(id) ?? new Map<string, number>()
        const found = (await arm.search(text, { limit: 20 }))
          .filter(document => judged.get(document) !== -1)
          .slice(0, 10)
        const discounted = (scores: readonly number[]) =>
          scores.reduce((sum, score, index) => sum + Math.max(0, score) / Math.log2(index + 2), 0)
        const ideal = discounted([...judged.values()].toSorted((one, other) => other - one).slice(0, 10))
        gains.push(ideal === 0 ? 0 : discounted(found.map(document => judged.get(document) ?? 0)) / ideal)
      }
      const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length
      expect(mean).toBeGreaterThanOrEqual(0.418)
    },
    60_000,
  )
})
