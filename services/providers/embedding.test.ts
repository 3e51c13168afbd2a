/** Embedding providers over HTTP, with test doubles of their protocols. */
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../testing/postgres.ts'
import { batches, createEmbedder, type EmbedderSettings } from './embedding.ts'
import { ProviderError } from './errors.ts'
import { retryAfterMs } from './exchange.ts'
import { type ProviderDouble, startProviderDouble } from './testing/double.ts'

const key = 'sk-secret-of-tests-0123456789'
const providers = ['openai', 'voyage', 'gemini', 'ollama'] as const
let double: ProviderDouble
/** The vectors that the double returns. By default, they are derived from a text's length. */
let vectorOf: (text: string, purpose: string) => readonly number[]

beforeAll(async () => {
  double = await startProviderDouble({ key, embed: (text, purpose) => vectorOf(text, purpose) })
})
afterAll(() => double.stop())
beforeEach(() => {
  double.seen.length = 0
  double.failures.length = 0
  vectorOf = text => [text.length, 0.5, -1e-7]
})

const embedder = (more: Partial<EmbedderSettings> = {}) =>
  createEmbedder({ provider: 'openai', model: 'm-1', apiKey: key, baseUrl: double.url, timeoutMs: 5_000, ...more })
const never = new AbortController().signal
const failure = async (more: Partial<EmbedderSettings> = {}, signal = never) => {
  const error = await embedder(more)
    .embed(['text'], 'query', signal)
    .then(
      () => undefined,
      (reason: unknown) => reason,
    )
  if (error instanceof ProviderError) {
    expect(error.message).not.toContain(key)
    expect(JSON.stringify(error)).not.toContain(key)
    return { kind: error.kind, message: error.message }
  }
  return { kind: 'none', message: String(error) }
}

describe.each(providers)('%s', provider => {
  test('embeds many texts in order', async () => {
    const texts = Array.from({ length: 230 }, (_, index) => 'x'.repeat(index + 1))
    const vectors = await embedder({ provider }).embed(texts, 'document', never)
    expect(vectors).toEqual(texts.map(text => [text.length, 0.5, -1e-7]))
  })

  test('reports a refused key without the key itself', async () => {
    const found = await failure({ provider, apiKey: `${key}-wrong` })
    expect(found).toEqual({ kind: 'refused', message: `${provider} refused the API key (HTTP 401)` })
  })

  test('detects missing vectors, different lengths, and values that are not numbers', async () => {
    const texts = ['a', 'bb']
    const messageOf = async () =>
      embedder({ provider })
        .embed(texts, 'query', never)
        .then(() => 'fine', String)
    vectorOf = text => (text === 'a' ? [1, 2] : [1])
    expect(await messageOf()).toContain('vectors of several lengths')
    vectorOf = () => []
    expect(await messageOf()).toContain('a vector of no numbers')
    // JSON has no Infinity. But JSON.parse returns Infinity for numbers that are too large.
    vectorOf = () => JSON.parse('["1"]')
    expect(await messageOf()).toContain('must be a vector of finite numbers')
  })
})

test.each<[EmbedderSettings['provider'], object, number | undefined]>([
  ['openai', { data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 8, total_tokens: 9 } }, 9],
  ['openai', { data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 8 } }, 8],
  ['openai', { data: [{ index: 0, embedding: [1] }], usage: { total_tokens: 'many' } }, undefined],
  ['openai', { data: [{ index: 0, embedding: [1] }], usage: null }, undefined],
  ['voyage', { data: [{ index: 0, embedding: [1] }], usage: { total_tokens: 7 } }, 7],
  ['gemini', { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 6 } }, 6],
  ['gemini', { embeddings: [{ values: [1] }] }, undefined],
  ['ollama', { embeddings: [[1]], prompt_eval_count: 5 }, 5],
  ['ollama', { embeddings: [[1]], prompt_eval_count: -1 }, undefined],
])('%s reports tokens in %j', async (provider, body, tokens) => {
  double.failures.push({ status: 200, body: JSON.stringify(body) })
  const counted: unknown[] = []
  const onTokens = (one: number | undefined, texts: readonly string[]) => counted.push([one, texts])
  expect(await embedder({ provider }).embed(['text'], 'query', never, onTokens)).toEqual([[1]])
  expect(counted).toEqual([[tokens, ['text']]])
})

describe('Ollama', () => {
  const ollama = (more: Partial<EmbedderSettings> = {}) =>
    failure({ provider: 'ollama', model: 'nomic-embed-text', ...more })

  test.each([
    ['ollama', { error: 'model "nomic-embed-text" not found, try pulling it first' }],
    ['ollama', { error: "model 'nomic-embed-text' not found" }],
    [
      'openai',
      { error: { message: 'model "nomic-embed-text" not found, try pulling it first', type: 'not_found_error' } },
    ],
  ] as const)('reports how to install a missing model (%s, %j)', async (provider, body) => {
    double.failures.push({ status: 404, body: JSON.stringify(body) })
    expect((await ollama({ provider })).message).toBe(
      `${provider} has no model nomic-embed-text (HTTP 404); run: ollama pull nomic-embed-text`,
    )
    expect(double.seen).toHaveLength(1)
  })

  test('never repeats a model name with characters that a terminal or shell interprets', async () => {
    double.failures.push({ status: 404, body: JSON.stringify({ error: 'model "a; rm -rf ~" not found' }) })
    expect((await ollama()).message).toBe('ollama refused the request (HTTP 404): model "a; rm -rf ~" not found')
  })

  test('reports what to do if Ollama is not running, or is loading a model', async () => {
    expect((await ollama({ baseUrl: `http://127.0.0.1:${await freePort()}` })).message).toMatch(/ollama serve$/)
    double.failures.push('hang')
    expect((await ollama({ timeoutMs: 100 })).message).toMatch(
      /^ollama did not answer within 100 ms; it may still be loading/,
    )
  })
})

test('no texts need no request', async () => {
  expect(await embedder().embed([], 'query', never)).toEqual([])
  expect(double.seen).toEqual([])
})

test('requests to Voyage and Gemini contain whether the text is a query', async () => {
  const purposes: string[] = []
  vectorOf = (_, purpose) => {
    purposes.push(purpose)
    return [1]
  }
  for (const provider of ['voyage', 'gemini'] as const) {
    await embedder({ provider }).embed(['q'], 'query', never)
    await embedder({ provider }).embed(['d'], 'document', never)
  }
  expect(purposes).toEqual(['query', 'document', 'RETRIEVAL_QUERY', 'RETRIEVAL_DOCUMENT'])
})

test('batches contain every text in order, within the limits', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ maxLength: 50 })),
      fc.integer({ min: 1, max: 10 }),
      fc.integer({ min: 1, max: 200 }),
      (texts, count, bytes) => {
        const all = batches(texts, { texts: count, bytes })
        expect(all.flat()).toEqual(texts)
        for (const batch of all) {
          expect(batch.length).toBeGreaterThan(0)
          expect(batch.length).toBeLessThanOrEqual(count)
          if (batch.length > 1) expect(Buffer.byteLength(batch.join(''))).toBeLessThanOrEqual(bytes)
        }
      },
    ),
  )
})

describe('temporary errors', () => {
  test('are retried: too many requests, provider faults, a broken connection', async () => {
    double.failures.push({ status: 429 }, { status: 503 }, 'reset')
    expect(await embedder().embed(['abc'], 'query', never)).toEqual([[3, 0.5, -1e-7]])
    expect(double.seen).toHaveLength(4)
  })

  test("are retried after the provider's Retry-After", async () => {
    double.failures.push({ status: 429, headers: { 'retry-after': '1' } })
    const began = performance.now()
    await embedder().embed(['abc'], 'query', never)
    expect(performance.now() - began).toBeGreaterThanOrEqual(990)
  })

  test('are not retried after the time limit', async () => {
    double.failures.push({ status: 429, headers: { 'retry-after': '3600' }, body: '{"error":{"message":"Quota."}}' })
    const began = performance.now()
    expect(await failure()).toEqual({
      kind: 'limited',
      message: 'openai limits the request rate (HTTP 429): Quota.',
    })
    expect(performance.now() - began).toBeLessThan(900)
  })

  test('are not retried forever', async () => {
    double.failures.push(...Array.from({ length: 9 }, () => ({ status: 500 })))
    expect((await failure({ timeoutMs: 60_000 })).kind).toBe('limited')
    expect(double.seen).toHaveLength(4)
  })
})

describe('permanent errors are reported without a retry', () => {
  test("a refused request, with the provider's message but without the key", async () => {
    double.failures.push({ status: 400, body: JSON.stringify({ error: { message: `no such\nmodel, ${key}` } }) })
    expect(await failure()).toEqual({
      kind: 'refused',
      message: 'openai refused the request (HTTP 400): no such model, ***',
    })
    expect(double.seen).toHaveLength(1)
  })

  test('a redirect, which must not receive the key', async () => {
    double.failures.push({ status: 302, headers: { location: double.url } })
    expect((await failure()).message).toContain('refused the request (HTTP 302)')
    expect(double.seen).toHaveLength(1)
  })

  test('a response that is not JSON', async () => {
    double.failures.push({ status: 200, body: '<html>' })
    expect(await failure()).toEqual({ kind: 'malformed', message: 'openai sent a response that is not JSON' })
  })

  test('an endless response', async () => {
    double.failures.push({ status: 200, body: `{"data":[],"more":"${'x'.repeat(3_000_000)}"}` })
    expect((await failure()).message).toMatch(/^openai sent more than \d+ bytes$/)
  })

  test('a refused connection', async () => {
    const host = `127.0.0.1:${await freePort()}`
    const found = await failure({ baseUrl: `http://${host}` })
    expect(found).toEqual({ kind: 'unreachable', message: `openai cannot be reached at ${host} (ECONNREFUSED)` })
  })

  test('another protocol', async () => {
    const listener = createServer(socket => {
      socket.on('error', () => {})
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
      )
    }).listen(0, '127.0.0.1')
    await new Promise(resolve => listener.once('listening', resolve))
    onTestFinished(() => void listener.close())
    const { port } = listener.address() as AddressInfo // The address of a TCP server.
    expect((await failure({ baseUrl: `http://127.0.0.1:${port}` })).kind).toBe('unreachable')
  })

  test('a response after the timeout', async () => {
    double.failures.push('hang')
    expect(await failure({ timeoutMs: 150 })).toEqual({
      kind: 'timeout',
      message: 'openai did not answer within 150 ms',
    })
  })

  test('an aborted request', async () => {
    double.failures.push('hang')
    const aborted = AbortSignal.timeout(50)
    expect((await failure({}, aborted)).message).toContain('TimeoutError')
    double.failures.push({ status: 503, headers: { 'retry-after': '2' } })
    const began = performance.now()
    expect((await failure({}, AbortSignal.timeout(100))).message).toContain('TimeoutError')
    expect(performance.now() - began).toBeLessThan(1_000)
  })

  test.each(['ftp://x', 'http://user:pw@127.0.0.1', 'nonsense', 'http://h/?k=1'])('the base URL %s', baseUrl => {
    expect(() => embedder({ baseUrl })).toThrow('base URL must be http or https')
    expect(() => embedder({ baseUrl })).not.toThrow('pw')
  })
})

test('any response of a provider results in vectors or a ProviderError', async () => {
  // Aborted requests of earlier tests may still arrive at the other double.
  const own = await startProviderDouble({ key, embed: () => [1] })
  onTestFinished(() => own.stop())
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.json(), fc.string()), fc.constantFrom(...providers), async (body, provider) => {
      own.failures.push({ status: 200, body })
      expect((await failure({ provider, baseUrl: own.url })).kind).toBe('malformed')
    }),
    { numRuns: 100 },
  )
})

test('Retry-After is seconds or a date', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  expect(retryAfterMs('7', now)).toBe(7_000)
  expect(retryAfterMs('Thu, 01 Jan 2026 00:00:09 GMT', now)).toBe(9_000)
  expect(retryAfterMs('Wed, 31 Dec 2025 00:00:00 GMT', now)).toBe(0)
  expect(retryAfterMs('soon', now)).toBe(0)
  expect(retryAfterMs(undefined, now)).toBe(0)
})
