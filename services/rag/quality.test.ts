/**
 * Retrieval quality over HTTP, as a client asks: a real Postgres, a real embedding model, and a collection with judgements. It takes minutes, so it runs where a collection is named:
 * `ESPALIER_COLLECTION` is a folder with corpus.jsonl, queries.jsonl and qrels.tsv (BEIR's shape).
 */

import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createEmbedder } from '../providers/embedding.ts'
import { startEmbeddingModel } from '../testing/embedding-model.ts'
import { startPgvector } from '../testing/pgvector.ts'
import { judgedQueries } from './evaluate/collection.ts'
import { type Metrics, metricsOf } from './evaluate/metrics.ts'
import { startRag } from './index.ts'
import { settingsOf } from './testing/settings.ts'

const folder = process.env.ESPALIER_COLLECTION
const depth = 110
const name = 'retrieval quality: needs a collection with judgements, named by ESPALIER_COLLECTION'

/** Answers every chat at once. */
async function startChat(): Promise<string> {
  const answer = {
    choices: [{ message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.setHeader('content-type', 'application/json').end(JSON.stringify(answer)))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // of a TCP server it is one
}

async function measure(from: string): Promise<Record<string, Metrics>> {
  const text = (file: string) => readFileSync(join(from, file), 'utf8')
  const documents = text('corpus.jsonl')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { id: string; title: string; text: string })
    .map(({ id, title, text: body }) => ({ id, content: `${title} ${body}`.trim() }))
    .filter(({ content }) => content !== '')
  const queries = judgedQueries(text('queries.jsonl'), text('qrels.tsv'))
  const [postgres, model, chat] = [await startPgvector(), await startEmbeddingModel(), await startChat()]
  if (postgres === undefined || model === undefined) throw new Error('the Python packages cannot be had')
  onTestFinished(() => postgres.stop())
  onTestFinished(() => model.stop())
  const embedder = createEmbedder({
    provider: 'openai',
    model: 'm',
    apiKey: undefined,
    baseUrl: model.url,
    timeoutMs: 600_000,
  })
  const embed = (texts: readonly string[]) => embedder.embed(texts, 'document', AbortSignal.timeout(600_000))
  await postgres.run('CREATE TABLE docs (id text PRIMARY KEY, content text, embedding vector(384))')
  for (let at = 0; at < documents.length; at += 50) {
    const batch = documents.slice(at, at + 50)
    const vectors = await embed(batch.map(({ content }) => content))
    const rows = batch.map(({ id, content }, index) => ({ id, content, embedding: JSON.stringify(vectors[index]) }))
    await postgres.run(
      `INSERT INTO docs SELECT * FROM json_to_recordset($json$${JSON.stringify(rows)}$json$) AS r (id text, content text, embedding vector)`,
    )
  }
  await postgres.run(`
    CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops);
    ALTER TABLE docs ADD words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED;
    CREATE INDEX ON docs USING gin (words); ANALYZE docs`)
  const pipeline = (own: string, search: string) => `
  - name: ${own}
    database: { host: 127.0.0.1, port: ${postgres.port} }
    tables: [{ table: docs, text_column: content, vector_column: embedding }]
    embedding_llm: { provider: openai, model: m, base_url: "${model.url}" }
    rag_llm: { provider: openai, model: m, base_url: "${chat}" }
    search: ${search}`
  const settings = settingsOf(
    `server: { port: 0 }\npipelines:${pipeline('vectors', '{ hybrid_enabled: false }')}${pipeline('words', '{ vector_weight: 0 }')}${pipeline('both', '{}')}`,
  )
  const service = await startRag({ read: () => settings, logger: pino({ level: 'silent' }) })
  onTestFinished(() => service.stop())
  const ask = async (own: string, query: string) => {
    const response = await fetch(`http://127.0.0.1:${service.address.port}/v1/pipelines/${own}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query, top_n: depth, include_sources: true }),
    })
    const { sources = [] } = (await response.json()) as { sources?: { id: string }[] }
    return sources.map(({ id }) => id)
  }
  const exact = async (query: string) => {
    const [vector] = await embed([query])
    const { rows } = await postgres
      .run(
        `SET enable_indexscan = off; SELECT id FROM docs ORDER BY embedding <=> '${JSON.stringify(vector)}', id LIMIT ${depth}`,
      )
      .then(result => (Array.isArray(result) ? result.at(-1) : result))
    return (rows as { id: string }[]).map(({ id }) => id)
  }
  const mean = async (search: (query: string) => Promise<string[]>): Promise<Metrics> => {
    const all: Metrics[] = []
    for (const { text: query, judgements } of queries) all.push(metricsOf(await search(query), judgements))
    const of = (metric: keyof Metrics) => all.reduce((sum, one) => sum + one[metric], 0) / all.length
    return { ndcg10: of('ndcg10'), recall10: of('recall10'), recall100: of('recall100'), mrr10: of('mrr10') }
  }
  return {
    exact: await mean(exact),
    vectors: await mean(query => ask('vectors', query)),
    words: await mean(query => ask('words', query)),
    both: await mean(query => ask('both', query)),
  }
}

if (folder === undefined) test.skip(name, () => {})
else
  test(name, { timeout: 1_800_000 }, async () => {
    const figures = await measure(folder)
    console.log(JSON.stringify(figures, undefined, 2))
    const of = (run: string) => figures[run]?.ndcg10 ?? 0
    expect(of('vectors')).toBeGreaterThan(of('exact') - 0.01)
    expect(of('both')).toBeGreaterThan(of('words'))
    expect(of('both')).toBeGreaterThan(of('vectors'))
  })
