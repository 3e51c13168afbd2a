/**
 * A collection with judgements behind a server. It is loaded as a user would load it, with a real embedding model, and
 * queried over HTTP.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { connectionAddress } from '../../../postgres/address.ts'
import { createEmbedder } from '../../../providers/embedding.ts'
import { startProviderDouble } from '../../../providers/testing/double.ts'
import type { Embedder } from '../../../providers/types.ts'
import { startEmbeddingModel } from '../../../testing/embedding-model.ts'
import type { TestPostgres } from '../../../testing/postgres.ts'
import { startRag } from '../../index.ts'
import { sourceFiles } from '../../load/documents/files.ts'
import { load } from '../../load/load.ts'
import { settingsOf } from '../../testing/settings.ts'
import { judgedQueries } from '../collection.ts'
import { type Arm, evaluate } from '../evaluate.ts'

const table = {
  schema: undefined,
  name: 'collection',
  textColumn: 'content',
  vectorColumn: 'embedding',
  idColumn: 'id',
  filter: undefined,
}
const depth = 110

const embedderOf = (url: string): Embedder =>
  createEmbedder({ provider: 'openai', model: 'm', apiKey: undefined, baseUrl: url, timeoutMs: 120_000 })

async function loadCollection(postgres: TestPostgres, folder: string, url: string): Promise<void> {
  await load({
    address: connectionAddress(postgres.uri('postgres'), {}),
    table,
    embedder: embedderOf(url),
    files: await sourceFiles(['corpus.jsonl'], folder),
    // Each document is one passage, of which the model reads only the beginning.
    maximumTokens: 8_000,
    ...{ batchSize: 16, parallel: 2, lockWaitMs: 0 },
    ...{ prune: false, replace: false, halfPrecision: false, language: 'english' },
    onProgress: () => {},
    signal: new AbortController().signal,
  })
}

/** Compares all vectors without an index, and bypasses the server. */
function exactArm(postgres: TestPostgres, url: string): Arm {
  const embedder = embedderOf(url)
  return {
    name: 'exact',
    async find(query) {
      const [vector] = await embedder.embed([query], 'query', new AbortController().signal)
      // The sum prevents the use of an index.
      const { rows } = await postgres.run(
        `SELECT document FROM collection ORDER BY (embedding <=> '${JSON.stringify(vector)}') + 0, document LIMIT ${depth}`,
      )
      return (rows as { document: string }[]).map(({ document }) => document) // the statement selects this column
    },
  }
}

/**
 * Queries by words, by vectors, by both, and by vectors without an index. Returns undefined if the model is not
 * available. `folder` contains corpus.jsonl, queries.jsonl and qrels.tsv.
 */
export async function evaluateOverHttp(postgres: TestPostgres, folder: string) {
  const model = await startEmbeddingModel()
  if (model === undefined) return undefined
  const chat = await startProviderDouble()
  try {
    await loadCollection(postgres, folder, model.url)
    const pipeline = (name: string, search: string) => `
  - name: ${name}
    database: { host: 127.0.0.1, port: ${postgres.port} }
    tables: [{ table: collection, text_column: content, vector_column: embedding, id_column: document }]
    embedding_llm: { provider: openai, model: m, base_url: "${model.url}" }
    rag_llm: { provider: openai, model: m, base_url: "${chat.url}" }
    search: ${search}`
    const settings = settingsOf(
      `server: { port: 0 }\npipelines:${pipeline('lexical', '{ vector_weight: 0 }')}${pipeline('vector', '{ hybrid_enabled: false }')}${pipeline('hybrid', '{}')}`,
    )
    const service = await startRag({ read: () => settings, logger: pino({ level: 'silent' }) })
    try {
      const arms = settings.pipelines.map(
        ({ name }): Arm => ({
          name,
          find: query => sendQuery(`http://127.0.0.1:${service.address.port}/v1/pipelines/${name}`, query),
        }),
      )
      const read = (name: string) => readFileSync(join(folder, name), 'utf8')
      const options = { parallel: 4, onProgress: () => {}, signal: new AbortController().signal }
      const queries = judgedQueries(read('queries.jsonl'), read('qrels.tsv'))
      return await evaluate(queries, [...arms, exactArm(postgres, model.url)], options)
    } finally {
      await service.stop()
    }
  } finally {
    await chat.stop()
    await model.stop()
  }
}

/** Returns the ids of the sources, best first. */
async function sendQuery(url: string, query: string): Promise<readonly string[]> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, top_n: depth, include_sources: true }),
  })
  const answer = await response.json()
  if (!response.ok) throw new Error(JSON.stringify(answer))
  return (answer as { sources: { id: string }[] }).sources.map(({ id }) => id)
}
