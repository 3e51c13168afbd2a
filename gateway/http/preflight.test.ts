/**
 * A web page of another origin uses the retrieval server through the gateway. The server itself answers the preflight.
 */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RagService, startRag } from '../../services/rag/index.ts'
import { fakePipeline } from '../../services/rag/testing/fake-pipeline.ts'
import { settingsOf } from '../../services/rag/testing/settings.ts'
import { chromiumPreflight } from '../testing/chromium.ts'
import { openHttps, ragToken, shopHost, type TestHttps } from '../testing/https.ts'

const { origin = '' } = chromiumPreflight
let it: TestHttps
let closed: RagService
let open: RagService

const startWith = (server: string) =>
  startRag({
    read: () =>
      settingsOf(`
server: { port: 0, allowed_hosts: [${shopHost}]${server} }
pipelines:
  - name: docs
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { provider: ollama, model: m }`),
    logger: pino({ level: 'silent' }),
    makePipeline: one => fakePipeline(one),
  })

beforeAll(async () => {
  it = await openHttps()
  open = await startWith(`, cors: { enabled: true, allowed_origins: ['${origin}'] }`)
  closed = await startWith('')
})
afterAll(async () => {
  await it?.close()
  await open?.stop()
  await closed?.stop()
})
const lead = ({ address: { port } }: RagService) => it.addresses.set('rag 80', [{ host: '127.0.0.1', port }])

test("the preflight allows a page's request, which then needs its token", async () => {
  lead(open)
  const path = '/rag/v1/pipelines/docs'
  const before = await it.send(path, { method: 'OPTIONS', headers: chromiumPreflight })
  expect([before.status, before.body]).toEqual([200, ''])
  expect(before.headers).toMatchObject({
    'access-control-allow-origin': origin,
    'access-control-allow-methods': expect.stringContaining('POST'),
    'access-control-allow-headers': expect.stringMatching(/authorization.*content-type/i),
  })
  const headers = { origin, 'content-type': 'application/json', 'sec-fetch-mode': 'cors' }
  const body = JSON.stringify({ query: 'Is it?' })
  const withToken = { ...headers, authorization: `Bearer ${ragToken}` }
  const answered = await it.send(path, { method: 'POST', headers: withToken, body })
  expect([answered.status, JSON.parse(answered.body).answer]).toEqual([200, 'Yes, it is.'])
  expect(answered.headers['access-control-allow-origin']).toBe(origin)
  expect((await it.send(path, { method: 'POST', headers, body })).status).toBe(401)
})

test('without CORS the server answers a preflight with an error and allows nothing', async () => {
  lead(closed)
  const { status, headers } = await it.send('/rag/v1/pipelines/docs', { method: 'OPTIONS', headers: chromiumPreflight })
  expect(status).toBe(405)
  expect(Object.keys(headers).filter(name => name.startsWith('access-control'))).toEqual([])
})
