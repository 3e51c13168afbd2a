/** Tests that the client renews an expired token once, and that it detects responses that are not from the API. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { exitCodeOf } from '../errors.ts'
import { createClient } from './client.ts'

let server: Server | undefined
afterEach(() => void server?.close())

/** Starts an API that accepts one token. @returns its address, and the tokens that it received */
async function startApi(accepted: string) {
  const received: (string | undefined)[] = []
  server = createServer((request, response) => {
    received.push(request.headers.authorization)
    const isAccepted = request.headers.authorization === `Bearer ${accepted}`
    response.writeHead(isAccepted ? 200 : 401).end(isAccepted ? '[]' : '{"code":401,"message":"the token has expired"}')
  })
  await new Promise<void>(resolve => server?.listen(0, '127.0.0.1', resolve))
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), received }
}

test('a refused token is renewed, and the next request uses the new one', async () => {
  const { url, received } = await startApi('new')
  const client = createClient({ url, token: 'old', renew: async () => ({ url, token: 'new' }) })
  expect(await client.tasks({}, 1)).toEqual([])
  expect(await client.tasks({}, 1)).toEqual([])
  expect(received).toEqual(['Bearer old', 'Bearer new', 'Bearer new'])
})

const tokenOf = (sub: string) =>
  `a.${Buffer.from(JSON.stringify({ iss: 'i', sub, tenant: 't' })).toString('base64url')}.c`

test('the client does not use a renewed token of another user', async () => {
  const { url, received } = await startApi(tokenOf('bea'))
  const client = createClient({ url, token: tokenOf('ada'), renew: async () => ({ url, token: tokenOf('bea') }) })
  await expect(client.tasks({}, 1)).rejects.toMatchObject({ status: 401 })
  expect(received).toHaveLength(1)
})

test.each([
  ['that cannot be renewed', undefined, 1],
  ['that stays the same after a renewal', { token: 'old' }, 1],
  ['whose renewed token is refused', { token: 'wrong' }, 2],
  ['whose profile now has another API', { token: 'new', url: new URL('http://127.0.0.1:1') }, 1],
])('a token %s is an error', async (_, renewed, requests) => {
  const { url, received } = await startApi('new')
  const renew = renewed === undefined ? undefined : async () => ({ url, ...renewed })
  await expect(createClient({ url, token: 'old', renew }).tasks({}, 1)).rejects.toMatchObject({
    status: 401,
    message: 'the token has expired',
    request: 'GET /tasks?limit=1',
  })
  expect(received).toHaveLength(requests)
})

/** Starts a server that sends this response to every request, or that sends no response. */
async function startServer(response: { status: number; text: string } | undefined): Promise<URL> {
  server = createServer((_, answer) => {
    if (response !== undefined) answer.writeHead(response.status).end(response.text)
  })
  await new Promise<void>(resolve => server?.listen(0, '127.0.0.1', resolve))
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

test.each([
  [200, '<!doctype html><p>Welcome</p>', 'it returned 200 with HTML or XML'],
  [200, '{"databases":[]}', 'it returned 200 with JSON of an unknown form'],
  [200, 'ok', 'it returned 200 with text that is not JSON'],
  [302, '', 'it returned 302 with no text'],
  [404, '<h1>Not found</h1>', 'it returned 404 with HTML or XML'],
])(
  'a response %i %j is not from the API: the error contains what was found and what to check',
  async (status, text, found) => {
    const url = await startServer({ status, text })
    const failure = await createClient({ url, token: 't' })
      .list()
      .catch((error: unknown) => error)
    // A 404 of another server does not mean that an object does not exist.
    expect(exitCodeOf(failure)).toBe(1)
    expect(failure).toMatchObject({
      message: `the server at ${url.origin} is not the API of Espalier: ${found}; check ESPALIER_API_URL, or the URL of the profile`,
      isFromApi: false,
    })
  },
)

test('the error for a late response contains the timeout', async () => {
  const url = await startServer(undefined)
  await expect(createClient({ url, token: 't', timeoutMs: 300 }).list()).rejects.toThrow(
    `cannot reach the API at ${url.origin}: no complete response within 0.3 s`,
  )
  server?.closeAllConnections()
})
