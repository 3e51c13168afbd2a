/** Every request gets the same response in a batch as on its own. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Answer } from '../../testing/client.ts'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { type FuzzedRequest, request, schema } from '../testing/requests.ts'
import { startService, type TestService } from '../testing/service.ts'

let postgres: TestPostgres
let service: TestService

beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), {
    'db-schemas': 'api, склад',
    'db-anon-role': 'anon',
    'db-aggregates-enabled': true,
    'db-plan-enabled': true,
    'db-tx-end': 'rollback',
    'batch-path': '/batch',
    'ndjson-enabled': true,
  })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const own = new Set(['accept', 'accept-profile', 'content-profile', 'content-type', 'prefer', 'range'])
const isJson = (type: string | undefined) =>
  type === undefined || /^\s*application\/(json|vnd\.pgrst\.(object|array)(\+json)?)\s*($|;)/i.test(type)

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The same request for a batch. Undefined if a batch cannot express the request. */
function entryOf({ method, path, headers, body }: FuzzedRequest): string | undefined {
  if (!/^\/[^?\s][\x21-\x7e]*$/.test(path) || !['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'].includes(method))
    return undefined
  const list = Object.entries(headers).map(([name, value]) => [
    name.toLowerCase(),
    Buffer.from(value, 'latin1').toString(),
  ])
  const ownHeaders: Record<string, string> = Object.fromEntries(list.filter(([name = '']) => own.has(name)))
  if (Object.values(ownHeaders).some(value => /\p{Cc}|\ufffd/u.test(value))) return undefined
  const text = body?.toString() ?? ''
  if (text.includes('\ufffd')) return undefined
  const type = ownHeaders['content-type']
  const written = body === undefined ? '' : isJson(type) ? (isJsonText(text) ? text : undefined) : JSON.stringify(text)
  if (written === undefined) return undefined
  const head = JSON.stringify({ method, path, headers: ownHeaders }).slice(0, -1)
  return `${head}${written === '' ? '' : `, "body": ${written}`}}`
}

const compared = [
  'content-type',
  'content-range',
  'content-location',
  'location',
  'preference-applied',
  'content-profile',
]
/** Values from sequences or the clock differ each time. */
const isMade = ({ method }: FuzzedRequest) => method === 'POST' || method === 'PUT'
function check(sent: FuzzedRequest, alone: Answer, batch: Answer): void {
  if (alone.status >= 300) {
    expect(batch.status).toBe(alone.status)
    const error = { ...JSON.parse(batch.text), request: undefined }
    if (isMade(sent)) expect(error.code).toBe(JSON.parse(alone.text).code)
    else if (alone.text !== '') expect(error).toEqual({ ...JSON.parse(alone.text), request: undefined })
    return
  }
  const [one] = JSON.parse(batch.text)
  expect(one.status).toBe(alone.status)
  if (isMade(sent)) return
  const headers = (all: Record<string, unknown>) => compared.map(name => [name, all[name]])
  expect(headers(one.headers)).toEqual(headers(alone.headers))
  // An execution plan contains timings.
  if (String(alone.headers['content-type']).includes('plan')) return
  const { body, encoding } = one
  if (body === null) expect(alone.text).toBe('')
  else if (encoding === 'base64') expect(Buffer.from(body, 'base64').toString()).toBe(alone.text)
  else if (alone.headers['content-type']?.includes('json;')) expect(body).toEqual(JSON.parse(alone.text))
  else expect(body).toBe(alone.text)
}

test('a request in a batch gets the same response as on its own', { timeout: 60_000 }, async () => {
  const headers = { 'content-type': 'application/json' }
  let count = 0
  await fc.assert(
    fc.asyncProperty(request, async sent => {
      const entry = entryOf(sent)
      if (entry === undefined) return
      const list = Object.entries(sent.headers).filter(([name]) => own.has(name.toLowerCase()))
      const { method, path, body } = sent
      const options = { method, headers: Object.fromEntries(list), ...(body === undefined ? {} : { body }) }
      const alone = await service.send(path, options)
      if (alone.text === '' && alone.status >= 400) return
      const batch = await service.send('/batch', { method: 'POST', headers, body: `[${entry}]` })
      check(sent, alone, batch)
      count++
    }),
    { numRuns: Number(process.env.ESPALIER_FUZZ_RUNS ?? 300), seed: 14 },
  )
  expect(count).toBeGreaterThan(100)
})
