/** CORS: the origins that may send requests from a browser. By default, there are none. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiConfiguration } from '../configuration.ts'
import { type Client, expectError, startClient } from '../testing/client.ts'
import { configurationOf } from '../testing/harness.ts'

const console = 'https://console.example.com'
const other = 'http://localhost:5173'
let closed: Client
let open: Client
beforeAll(async () => {
  closed = await startClient()
  open = await startClient({
    configuration: configurationOf({ cors: { origins: [console, other], maxAgeSeconds: 60 } }),
  })
})
afterAll(async () => {
  await closed.close()
  await open.close()
})

const corsOf = (headers: Record<string, unknown>) =>
  Object.keys(headers).filter(name => name.startsWith('access-control-') || name === 'vary')
const preflight = (client: Client, origin: string, path = '/databases') =>
  client.call('OPTIONS', path, {
    token: null,
    headers: {
      origin,
      'access-control-request-method': 'PATCH',
      'access-control-request-headers': 'authorization,if-match',
    },
  })

test('allows no origin, unless configured', async () => {
  const read = await closed.call('GET', '/regions', { headers: { origin: console } })
  expect({ status: read.status, cors: corsOf(read.headers) }).toEqual({ status: 200, cors: [] })
  const answer = await preflight(closed, console)
  expectError(answer, 405)
  expect(corsOf(answer.headers)).toEqual([])
})

describe('a configured origin', () => {
  test.each([console, other])('%s is allowed, and can read responses', async origin => {
    const read = await open.call('GET', '/regions', { headers: { origin } })
    expect(read).toMatchObject({ status: 200, headers: { 'access-control-allow-origin': origin, vary: 'Origin' } })
    const exposed = String(read.headers['access-control-expose-headers']).split(', ')
    expect(exposed).toEqual(
      expect.arrayContaining([
        'X-Request-Id',
        'X-Task-Id',
        'Location',
        'Link',
        'X-Total-Count',
        'Retry-After',
        'RateLimit',
      ]),
    )
    expect(read.headers).not.toHaveProperty('access-control-allow-credentials')
  })

  test('can read errors, too', async () => {
    const headers = { origin: console }
    for (const [path, token, status] of [
      ['/databases', null, 401],
      ['/nothing', undefined, 404],
      ['/databases?x=1', undefined, 400],
      ['/databases/%zz', undefined, 400],
    ] as const) {
      const answer = await open.call('GET', path, { headers, ...(token === null ? { token } : {}) })
      expectError(answer, status)
      if (!path.includes('%')) expect(answer.headers['access-control-allow-origin']).toBe(console)
    }
  })

  test('is answered before authentication', async () => {
    const answer = await preflight(open, console, '/databases/0198c0de-0000-7000-8000-000000000001')
    expect(answer).toMatchObject({
      status: 204,
      body: '',
      headers: { 'access-control-allow-origin': console, 'access-control-max-age': '60', vary: 'Origin' },
    })
    expect(String(answer.headers['access-control-allow-methods']).split(', ')).toContain('PATCH')
    const allowed = String(answer.headers['access-control-allow-headers']).toLowerCase().split(', ')
    expect(allowed).toEqual(
      expect.arrayContaining(['authorization', 'content-type', 'if-match', 'idempotency-key', 'prefer']),
    )
    // An OPTIONS request that is not a preflight is handled like any other method.
    expectError(await open.call('OPTIONS', '/databases', { headers: { origin: console } }), 405)
  })
})

test.each([
  'https://console.example.com.evil.test',
  'https://evil.test',
  'http://console.example.com',
  `${console}:8443`,
  'null',
])('%s is not configured', async origin => {
  const read = await open.call('GET', '/regions', { headers: { origin } })
  expect({ status: read.status, cors: corsOf(read.headers) }).toEqual({ status: 200, cors: ['vary'] })
  expectError(await preflight(open, origin), 405)
})

test('matches an origin exactly', () => {
  const parse = (origin: string) =>
    apiConfiguration.safeParse({
      authentication: { sharedSecret: 's'.repeat(32), issuer: 'i', audience: 'a' },
      cors: { origins: [origin] },
    }).success
  expect([console, other, 'http://[::1]:8080'].map(parse)).toEqual([true, true, true])
  const wrong = [
    '*',
    'null',
    'console.example.com',
    `${console}/`,
    `${console}:443`,
    'https://*.example.com',
    'https://A.test',
    'file://',
  ]
  expect(wrong.filter(parse)).toEqual([])
})
