/** The HTTP API with pipelines whose answers and errors each test sets. */
import { get } from 'node:http'
import { connect } from 'node:net'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ProviderError } from '../../providers/errors.ts'
import { until } from '../../testing/client.ts'
import { RagError } from '../errors.ts'
import { type RagService, startRag } from '../index.ts'
import type { Question, Reachability } from '../pipelines.ts'
import type { SearchRequest } from '../search/types.ts'
import { document, type FakePipeline, fakePipeline, streamOf } from '../testing/fake-pipeline.ts'
import { settingsOf } from '../testing/settings.ts'
import { openApi } from './openapi.ts'

const pipelineText = (name: string, more = '') => `
  - name: ${name}
    description: Of ${name}
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { provider: ollama, model: m }
    ${more}`
const server =
  'server: { port: 0, allowed_hosts: [RAG.example], request_timeout: 300ms, stream_timeout: 800ms, cors: { enabled: true, allowed_origins: [https://app.example] } }'

const failing = (error: unknown) => async (): Promise<void> => {
  throw error
}
const hang = (signal: AbortSignal) =>
  new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
/** A promise that never resolves and ignores the signal. */
const deaf = () => new Promise<void>(() => {})

/** The next search result of the pipeline `docs`. */
let search: (request: SearchRequest, signal: AbortSignal) => Promise<void>
let pieces: (question: Question, signal: AbortSignal) => AsyncIterable<string>
let database: Reachability = { reachable: true }
const questions: Question[] = []
let docs: FakePipeline
let service: RagService
let base: string
const lines: string[] = []

beforeAll(async () => {
  const settings = settingsOf(
    `${server}\npipelines:${pipelineText('docs')}${pipelineText('narrow', 'max_concurrent_requests: 1')}${pipelineText('closed', 'allow_include_sources: false')}`,
  )
  service = await startRag({
    read: () => settings,
    logger: pino({ level: 'info' }, { write: line => void lines.push(line) }),
    makePipeline: one => {
      const made = fakePipeline(one, {
        search: (request, signal) => search(request, signal),
        pieces: (question, signal) => {
          questions.push(question)
          return pieces(question, signal)
        },
        reachable: one.name !== 'narrow',
        databaseHealth: () => database,
      })
      if (one.name === 'docs') docs = made
      return made
    },
    intervalMs: 60_000,
  })
  base = `http://127.0.0.1:${service.address.port}`
})
afterAll(() => service?.stop())

function behave(next: Partial<{ search: typeof search; pieces: typeof pieces }> = {}): void {
  search = next.search ?? (async () => {})
  pieces = next.pieces ?? (() => streamOf('Yes', ', it is.'))
}
behave()

const post = (
  body: unknown,
  { name = 'docs', headers = {}, signal }: { name?: string; headers?: object; signal?: AbortSignal } = {},
) =>
  fetch(`${base}/v1/pipelines/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal && { signal }),
  })
const refused = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  expect(response.headers.get('link')).toBe('</v1/openapi.json>; rel="service-desc"')
  return [response.status, error.code, error.message] as const
}

describe('a query', () => {
  test('is answered; the answer has sources only if they are requested and allowed', async () => {
    behave()
    expect(await (await post({ query: 'Is it?' })).json()).toEqual({ answer: 'Yes, it is.', tokens_used: 49 })
    const filter = { conditions: [{ column: 'lang', operator: '=', value: 'en' }] }
    const messages = [{ role: 'user', content: 'Hello' }]
    const answer = await post({ query: 'Is it?', include_sources: true, top_n: 1, filter, messages })
    expect(answer.headers.get('link')).toBe('</v1/openapi.json>; rel="service-desc"')
    expect(await answer.json()).toEqual({
      answer: 'Yes, it is.',
      sources: [{ id: 'a', content: 'text of a', score: 0.5 }],
      tokens_used: 49,
    })
    expect(docs.searched.at(-1)).toEqual({
      ...{ query: 'Is it?', topN: 1, timeoutMs: 300 },
      filter: { ...filter, logic: 'AND' },
    })
    expect(questions.at(-1)).toMatchObject({ query: 'Is it?', history: messages, documents: [document('a')] })
    expect(await (await post({ query: 'x', include_sources: true }, { name: 'closed' })).json()).not.toHaveProperty(
      'sources',
    )
  })

  test.each<[string, unknown, number, RegExp]>([
    ['no JSON', '{', 400, /not valid JSON/],
    ['no body', '', 400, /the body must be/],
    ['a list', [], 400, /the body must be an object/],
    ['no query', {}, 400, /^query must be given/],
    ['a blank query', { query: ' ' }, 400, /^query must not be empty/],
    ['a long query', { query: 'x'.repeat(32_001) }, 400, /^query must have at most/],
    ['an unknown field', { query: 'x', fliter: {} }, 400, /fliter/],
    ['a wrong number', { query: 'x', top_n: 0 }, 400, /^top_n /],
    [
      'an unknown operator',
      { query: 'x', filter: { conditions: [{ column: 'a', operator: '~', value: 1 }] } },
      400,
      /^filter\.conditions\[0\]\.operator/,
    ],
    ['SQL as a filter', { query: 'x', filter: '1=1; drop table t' }, 400, /^filter must be an object/],
    ['an unknown role', { query: 'x', messages: [{ role: 'system', content: 'x' }] }, 400, /^messages\[0\]\.role/],
    ['bytes that are not UTF-8', undefined, 400, /UTF-8/],
  ])('with %s is refused, and the error names the field', async (_, body, status, message) => {
    const response =
      body === undefined
        ? await fetch(`${base}/v1/pipelines/docs`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: Buffer.from([0x22, 0xff, 0x22]),
          })
        : await post(body)
    expect(await refused(response)).toEqual([status, 'INVALID_REQUEST', expect.stringMatching(message)])
  })

  test('with another content type or size is refused', async () => {
    expect(await refused(await post('query=x', { headers: { 'content-type': 'text/plain' } }))).toEqual([
      415,
      'INVALID_REQUEST',
      expect.stringContaining('application/json'),
    ])
    const large = JSON.stringify({ query: 'x', messages: [{ role: 'user', content: 'x'.repeat(1_048_576) }] })
    expect(await refused(await post(large))).toEqual([413, 'REQUEST_TOO_LARGE', expect.stringContaining('1048576')])
  })

  test.each<[string, unknown, number, string, RegExp]>([
    ['a database error', new RagError('EXECUTION_ERROR', 'the database failed'), 500, 'EXECUTION_ERROR', /database/],
    [
      'a provider error',
      new ProviderError('limited', 'openai', 'failed (HTTP 500)', 500),
      500,
      'EXECUTION_ERROR',
      /openai failed/,
    ],
    [
      'an unknown column in a filter',
      new RagError('INVALID_REQUEST', 'filter.conditions[0].column: unknown column "x"'),
      400,
      'INVALID_REQUEST',
      /"x"/,
    ],
    ['an internal error', new TypeError('secret of ours'), 500, 'INTERNAL_ERROR', /^unexpected server error$/],
  ])('that ends in %s reports the error', async (_, error, status, code, message) => {
    behave({ search: failing(error) })
    expect(await refused(await post({ query: 'x' }))).toEqual([status, code, expect.stringMatching(message)])
    behave()
  })

  test.each([
    ['that observes its signal', hang],
    ['that ignores its signal', deaf],
  ])('ends at its timeout if it runs work %s', async (_, wait) => {
    behave({ search: (_, signal) => wait(signal) })
    expect(await refused(await post({ query: 'x' }))).toEqual([
      504,
      'REQUEST_TIMEOUT',
      expect.stringContaining('300 ms'),
    ])
    behave()
  })

  test('is refused if its pipeline has the maximum number of requests', async () => {
    const begun = Promise.withResolvers<void>()
    behave({
      search: (_, signal) => {
        begun.resolve()
        return hang(signal)
      },
    })
    const first = post({ query: 'x' }, { name: 'narrow' })
    await begun.promise
    const second = await post({ query: 'x' }, { name: 'narrow' })
    expect(second.headers.get('retry-after')).toBe('1')
    expect((await refused(second)).slice(0, 2)).toEqual([503, 'OVERLOADED'])
    expect((await first).status).toBe(504)
    behave()
    expect((await post({ query: 'x' }, { name: 'narrow' })).status).toBe(200)
  })

  test.each([false, true])('with an incomplete search reports it in a header (stream: %s)', async stream => {
    behave()
    const header = async (query: string) => (await post({ query, stream })).headers.get('search-incomplete')
    expect([await header('x'), await header('incomplete')]).toEqual([null, 'true'])
    expect(await (await fetch(`${base}/metrics`)).text()).toMatch(
      /rag_incomplete_searches_total\{pipeline="docs"\} [12]/,
    )
  })

  test('uses no slot of its pipeline before its body has arrived; the body has its own timeout', async () => {
    behave()
    const slow = connect(service.address.port, '127.0.0.1')
    onTestFinished(() => void slow.destroy())
    const head = 'POST /v1/pipelines/narrow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json'
    const answer = new Promise<string>(resolve => slow.once('data', data => resolve(String(data))))
    slow.write(`${head}\r\nContent-Length: 100\r\n\r\n{"query"`)
    await new Promise(resolve => setTimeout(resolve, 50))
    expect((await post({ query: 'x' }, { name: 'narrow' })).status).toBe(200)
    expect(await answer).toMatch(/^HTTP\/1.1 408 /)
    expect(await answer).toContain('"code":"INVALID_REQUEST","message":"the body did not arrive within 300 ms"')
    expect(await (await fetch(`${base}/metrics`)).text()).toContain('in_flight{pipeline="narrow"} 0')
  })

  test('stops its work if its client disconnects', async () => {
    const ended = Promise.withResolvers<unknown>()
    behave({ search: (_, signal) => hang(signal).catch(ended.resolve) })
    const leaving = new AbortController()
    const request = post({ query: 'x' }, { signal: leaving.signal }).catch(() => {})
    setTimeout(() => leaving.abort(), 30)
    expect(String(await ended.promise)).toContain('the client has disconnected')
    await request
    await until(() => lines.some(line => line.includes('CLIENT_GONE')))
    behave()
  })
})

describe('a stream', () => {
  const stream = (name = 'docs') => post({ query: 'x', stream: true, include_sources: true }, { name })

  test('has events of chunks and done, and no sources', async () => {
    behave({ pieces: () => streamOf('a\n', '', 'ö"') })
    const response = await stream()
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      connection: 'keep-alive',
    })
    expect(await response.text()).toBe(
      'data: {"type":"chunk","content":"a\\n"}\n\ndata: {"type":"chunk","content":"ö\\""}\n\ndata: {"type":"done"}\n\n',
    )
    behave()
  })

  test('that fails before its first piece becomes an error response with a status', async () => {
    behave({
      pieces: async function* () {
        await failing(new ProviderError('limited', 'openai', 'failed (HTTP 500)', 500))()
        yield 'never'
      },
    })
    expect((await refused(await stream())).slice(0, 2)).toEqual([500, 'EXECUTION_ERROR'])
    behave({ search: failing(new RagError('INVALID_REQUEST', 'filter')) })
    expect((await refused(await stream())).slice(0, 2)).toEqual([400, 'INVALID_REQUEST'])
    behave()
  })

  test.each<[string, () => Promise<void>, string]>([
    [
      'fails',
      failing(new ProviderError('unreachable', 'openai', 'broke off')),
      '{"code":"STREAMING_ERROR","message":"openai broke off"}',
    ],
    ['stalls', deaf, '{"code":"REQUEST_TIMEOUT","message":"no answer within 300 ms"}'],
  ])('that %s after its first piece ends with one error event', async (_, fault, error) => {
    behave({
      pieces: async function* () {
        yield 'a'
        await fault()
      },
    })
    expect(await (await stream()).text()).toBe(
      `data: {"type":"chunk","content":"a"}\n\ndata: {"type":"error","error":${error}}\n\n`,
    )
    behave()
  })

  test('that is too slow ends after its total timeout', async () => {
    behave({
      pieces: async function* () {
        for (;;) {
          yield 'a'
          await new Promise(resolve => setTimeout(resolve, 100))
        }
      },
    })
    const began = performance.now()
    expect((await (await stream()).text()).split('\n\n').at(-2)).toBe(
      'data: {"type":"error","error":{"code":"REQUEST_TIMEOUT","message":"the answer was not complete within 800 ms"}}',
    )
    expect(performance.now() - began).toBeLessThan(2_000)
    behave()
  })

  test('is no longer read after its client disconnects', async () => {
    const ended = Promise.withResolvers<void>()
    behave({
      pieces: async function* (_, signal) {
        try {
          yield 'a'
          await hang(signal)
        } finally {
          ended.resolve()
        }
      },
    })
    const leaving = new AbortController()
    const response = await post({ query: 'x', stream: true }, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    await ended.promise
    behave()
  })

  test('waits for a client that reads slowly', async () => {
    let made = 0
    behave({
      pieces: async function* () {
        for (; made < 2_000; made++) yield 'x'.repeat(10_000)
      },
    })
    const socket = connect(service.address.port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const body = '{"query":"x","stream":true}'
    socket.write(
      `POST /v1/pipelines/docs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    socket.pause()
    let before = -1
    await until(() => {
      const isStill = made > 0 && made === before
      before = made
      return isStill
    })
    expect(made).toBeLessThan(1_900)
    behave()
  })
})

describe('the other routes', () => {
  test.each([
    ['/v1/live', { status: 'ok' }],
    ['/v1/openapi.json', JSON.parse(JSON.stringify(openApi))],
    ['/v1/pipelines', { pipelines: ['docs', 'narrow', 'closed'].map(name => ({ name, description: `Of ${name}` })) }],
  ])('%s', async (path, expected) => {
    const response = await fetch(base + path)
    expect(response.headers.get('link')).toBe('</v1/openapi.json>; rel="service-desc"')
    expect(await response.json()).toEqual(expected)
    const head = await fetch(base + path, { method: 'HEAD' })
    expect([head.status, await head.text(), head.headers.get('link')]).toEqual([200, '', response.headers.get('link')])
  })

  test('/v1/health runs one check for all clients', async () => {
    const healths = await Promise.all(Array.from({ length: 5 }, async () => (await fetch(`${base}/v1/health`)).json()))
    expect(healths[4]).toMatchObject({
      status: 'degraded',
      pipelines: [
        { name: 'docs', embedding: { reachable: true }, database: { reachable: true } },
        { name: 'narrow', completion: { reachable: false, error: 'openai failed' } },
        { name: 'closed' },
      ],
    })
    expect(docs.checks()).toBe(1)
  })

  test('/ready/database succeeds after every database was reached, and needs no provider or table', async () => {
    const ready = async () => (await fetch(`${base}/ready/database`)).status
    database = { reachable: false, error: 'the database cannot be reached' }
    expect(await ready()).toBe(503)
    database = { reachable: false, error: 'the table t does not exist' }
    expect(await ready()).toBe(200)
    database = { reachable: false, error: 'the database cannot be reached' }
    expect(await ready()).toBe(200)
  })

  test('refuses an unknown path or method', async () => {
    expect((await refused(await fetch(`${base}/v1/none`))).slice(0, 2)).toEqual([404, 'NOT_FOUND'])
    expect((await refused(await post({ query: 'x' }, { name: 'none' }))).slice(0, 2)).toEqual([
      404,
      'PIPELINE_NOT_FOUND',
    ])
    const wrong = await fetch(`${base}/v1/pipelines/docs`)
    expect(wrong.headers.get('allow')).toBe('POST')
    expect((await refused(wrong)).slice(0, 2)).toEqual([405, 'METHOD_NOT_ALLOWED'])
    const written = await fetch(`${base}/v1/pipelines`, { method: 'DELETE' })
    expect(written.headers.get('allow')).toBe('GET, HEAD')
    const long = await fetch(`${base}/v1/live`, { headers: { 'x-long': 'x'.repeat(20_000) } })
    expect((await refused(long)).slice(0, 2)).toEqual([431, 'INVALID_REQUEST'])
  })

  test('refuses a page whose name resolves to this machine', async () => {
    const named = (host: string) =>
      new Promise<number | undefined>(resolve => {
        get(`${base}/v1/pipelines`, { headers: { host } }, answer => resolve(answer.resume().statusCode))
      })
    expect(await named('rebound.example')).toBe(403)
    for (const host of ['localhost:8080', '127.0.0.1', '[::1]:8080', 'rag.example', 'app.example'])
      expect([host, await named(host)]).toEqual([host, 200])
  })

  test('accepts requests from pages of the allowed origin, but not from other pages', async () => {
    const preflight = (origin: string) =>
      fetch(`${base}/v1/pipelines/docs`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' },
      })
    const allowed = await preflight('https://app.example')
    expect(Object.fromEntries(allowed.headers)).toMatchObject({
      'access-control-allow-origin': 'https://app.example',
      'access-control-max-age': '86400',
      'access-control-allow-headers': expect.stringContaining('content-type'),
    })
    expect((await preflight('https://other.example')).headers.get('access-control-allow-origin')).toBeNull()
    const read = await fetch(`${base}/v1/live`, { headers: { origin: 'https://app.example' } })
    expect(read.headers.get('access-control-allow-origin')).toBe('https://app.example')
  })

  test('metrics count queries by pipeline and outcome, and have no unknown names', async () => {
    await post({ query: 'x' })
    await post({ query: 'x' }, { name: 'made-up' })
    const text = await (await fetch(`${base}/metrics`)).text()
    expect(text).toMatch(/rag_requests_total\{pipeline="docs",outcome="OK"\} [1-9]/)
    expect(text).toMatch(/rag_requests_total\{pipeline="",outcome="PIPELINE_NOT_FOUND"\} [1-9]/)
    expect(text).toMatch(/rag_stage_duration_seconds_count\{pipeline="docs",stage="search"\} [1-9]/)
    expect(text).toContain('rag_requests_in_flight{pipeline="narrow"} 0')
    expect(text).toContain('rag_db_pool_max{pipeline="docs"} 10')
    expect(text).not.toContain('made-up')
  })
})

test('the description is valid OpenAPI 3.0.3, and complete', async () => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: JSON.stringify(openApi), config })
  expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([])
})

test('logs that only this machine can send requests', () => {
  expect(lines.join()).toContain('listening for this machine only')
})
