/** Settings of an endpoint (retries, time limits, headers), and reranking. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { createChatProvider } from './chat/index.ts'
import { createEmbedder } from './embedding.ts'
import type { EndpointSettings } from './endpoint.ts'
import { ProviderError } from './errors.ts'
import { createReranker } from './rerank.ts'
import { type ProviderDouble, startProviderDouble } from './testing/double.ts'

const key = 'sk-secret-of-tests-0123456789'
const token = 'gateway-token-987654'
const never = new AbortController().signal
let double: ProviderDouble

beforeAll(async () => {
  double = await startProviderDouble({ rank: (query, document) => (document.includes(query) ? 0.9 : 0.1) })
})
afterAll(() => double.stop())
beforeEach(() => {
  double.seen.length = 0
  double.failures.length = 0
})

const settings = (more: Partial<EndpointSettings> = {}) => ({
  ...{ model: 'm', apiKey: key, baseUrl: double.url, timeoutMs: 5_000, retries: 1 },
  ...more,
})
const embed = (more?: Partial<EndpointSettings>) =>
  createEmbedder({ provider: 'openai', ...settings(more) }).embed(['text'], 'query', never)
const failureOf = async (work: Promise<unknown>): Promise<ProviderError> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof ProviderError) return error
  throw new Error(`not the error of a provider: ${String(error)}`)
}

describe('retries', () => {
  test('stop at the configured number', async () => {
    double.failures.push(...Array.from({ length: 5 }, () => ({ status: 500 })))
    const began = performance.now()
    expect(await failureOf(embed())).toMatchObject({ kind: 'limited', status: 500 })
    expect(double.seen).toHaveLength(2)
    expect(performance.now() - began).toBeLessThan(2_000)
    expect(await failureOf(embed({ retries: 0 }))).toMatchObject({ kind: 'limited' })
    expect(double.seen).toHaveLength(3)
  })

  test('are not made if the provider requests a delay that is too long', async () => {
    double.failures.push({ status: 429, headers: { 'retry-after': '2' } })
    const began = performance.now()
    expect(await failureOf(embed({ longestPauseMs: 1_000 }))).toMatchObject({ kind: 'limited', status: 429 })
    expect(performance.now() - began).toBeLessThan(1_500)
    double.failures.push({ status: 429, headers: { 'retry-after': '1' } })
    expect(await embed({ longestPauseMs: 1_500 })).toEqual([[4, 1, 0]])
  })

  test('ends an attempt that takes too long, and makes another attempt', async () => {
    double.failures.push('hang')
    expect(await embed({ attemptTimeoutMs: 100 })).toEqual([[4, 1, 0]])
    double.failures.push('hang', 'hang')
    expect(await failureOf(embed({ attemptTimeoutMs: 100 }))).toMatchObject({
      kind: 'timeout',
      message: 'openai did not answer within 100 ms',
    })
    expect(double.seen).toHaveLength(4)
    await vi.waitFor(() => expect(double.open()).toBe(0), { timeout: 30_000 })
  })
})

test('does not decompress a response beyond its limit', async () => {
  const body = gzipSync(' '.repeat(20_000_000))
  double.failures.push({
    status: 200,
    headers: { 'content-encoding': 'gzip', 'content-length': `${body.length}` },
    body,
  })
  expect((await failureOf(embed())).message).toMatch(/^openai sent more than \d+ bytes$/)
})

test.each([
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
  ['deflate', deflateSync],
])('decompresses a response that was compressed with %s', async (encoding, pack) => {
  const body = pack(JSON.stringify({ data: [{ index: 0, embedding: [1, 2] }] }))
  double.failures.push({ status: 200, headers: { 'content-encoding': encoding }, body })
  expect(await embed()).toEqual([[1, 2]])
  // After a broken response there is only one retry, however many retries are configured.
  for (let attempt = 0; attempt < 2; attempt++)
    double.failures.push({ status: 200, headers: { 'content-encoding': encoding }, body: body.subarray(0, -9) })
  expect((await failureOf(embed({ retries: 0 }))).kind).toBe('unreachable')
  expect(double.failures).toHaveLength(0)
})

test('reuses connections, also after streams and refusals', async () => {
  const chat = createChatProvider({ provider: 'openai', ...settings() })
  for (let attempt = 0; attempt < 3; attempt++) {
    await embed()
    double.failures.push({ status: 400, body: '{}' })
    await failureOf(embed())
    const messages = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'cats' }] }]
    for await (const _ of chat.stream({ model: 'm', messages, tools: [], maximumTokens: 9 }, never));
  }
  expect(new Set(double.seen.map(({ clientPort }) => clientPort)).size).toBe(1)
})

describe('configured headers', () => {
  test("are sent in addition to the protocol's headers, and replace them", async () => {
    await embed({ headers: { 'X-Team': 'search', Authorization: `Bearer ${token}` } })
    expect(double.seen[0]?.headers).toMatchObject({ 'x-team': 'search', authorization: `Bearer ${token}` })
    expect(double.seen[0]?.headers['content-type']).toBe('application/json')
  })

  test('are omitted from errors', async () => {
    const echo = JSON.stringify({ error: { message: `no rights for ${token}, ${key}` } })
    const chat = createChatProvider({
      provider: 'anthropic',
      ...settings({ headers: { 'X-Gateway': `Bearer ${token}` } }),
    })
    double.failures.push({ status: 400, body: echo })
    const error = await failureOf(chat.models(never))
    expect(error.message).toBe('anthropic refused the request (HTTP 400): no rights for ***, ***')
    expect(error.summary).toBe('anthropic refused the request (HTTP 400)')
    expect(JSON.stringify(error) + error.stack).not.toMatch(new RegExp(`${token}|${key}`))
  })
})

describe('reranking', () => {
  test('reports tokens if the provider counts them', async () => {
    const counted: number[] = []
    const ranked = (more: object) => {
      double.failures.push({
        status: 200,
        body: JSON.stringify({ data: [{ index: 0, relevance_score: 1 }], ...more }),
      })
      const reranker = createReranker({ provider: 'voyage', ...settings() })
      return reranker.rerank('q', ['a'], 1, never, tokens => counted.push(tokens))
    }
    await ranked({ usage: { total_tokens: 26 } })
    await ranked({ usage: 'much' })
    await ranked({})
    expect(counted).toEqual([26])
  })

  const rerank = (depth = 10, documents = ['a', 'about cats', 'c']) =>
    createReranker({ provider: 'voyage', ...settings() }).rerank('cats', documents, depth, never)

  test('returns the best documents first, up to the requested number', async () => {
    expect(await rerank()).toEqual([
      { index: 1, score: 0.9 },
      { index: 0, score: 0.1 },
      { index: 2, score: 0.1 },
    ])
    expect(await rerank(1)).toEqual([{ index: 1, score: 0.9 }])
    expect(await rerank(1, [])).toEqual([])
    expect(double.seen).toHaveLength(2)
    expect(double.seen[0]?.body).toEqual({
      ...{ query: 'cats', documents: ['a', 'about cats', 'c'], model: 'm', top_k: 3 },
    })
  })

  test.each([
    { results: [{ index: 2, relevance_score: 1.5 }] },
    [{ index: 2, score: 1.5 }],
    { data: [{ index: 2, relevance_score: 1.5 }] },
  ])('accepts %j', async answer => {
    double.failures.push({ status: 200, body: JSON.stringify(answer) })
    expect(await rerank()).toEqual([{ index: 2, score: 1.5 }])
  })

  test.each([
    ['{"data":[{"index":3,"relevance_score":1}]}', 'ranked a document that was not in the request'],
    ['{"data":[{"index":1,"relevance_score":1},{"index":1,"relevance_score":1}]}', 'ranked a document twice'],
    ['{"data":[{"index":1}]}', 'must be a list of an index and a relevance_score each'],
    ['[]x', 'is not JSON'],
  ])('refuses %s', async (body, problem) => {
    double.failures.push({ status: 200, body })
    const error = await failureOf(rerank())
    expect(error.kind).toBe('malformed')
    expect(error.message).toContain(problem)
  })
})
