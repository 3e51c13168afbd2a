/** Many slow request bodies at the same time: how much of the shared memory one tenant can use. */
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bodyLimit } from './plugins/body.ts'
import { type Client, startClient, until } from './testing/client.ts'
import { bearer } from './testing/harness.ts'

let client: Client
let port: number
const sockets: Socket[] = []
beforeAll(async () => {
  client = await startClient()
  await client.app.listen({ host: '127.0.0.1', port: 0 })
  const { port: listening } = client.app.server.address() as AddressInfo // a TCP server has an AddressInfo
  port = listening
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await client.close()
})

/** Starts a request and sends nothing of the announced body. Returns the response that arrives meanwhile. */
function beginAt(path: string, announced: string, authorization = ''): () => string {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', chunk => (answer += chunk)).on('error', () => {})
  const head = [`POST ${path} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', announced, authorization]
  socket.write(`${head.filter(line => line !== '').join('\r\n')}\r\n\r\n`)
  sockets.push(socket)
  return () => answer
}

async function begin(tenant: string, announced: string): Promise<() => string> {
  const { authorization } = await bearer({ tenant })
  return beginAt('/managed/v1/databases', announced, `Authorization: ${authorization}`)
}

const create = async (tenant: string, name: string) => {
  const body = { name, region: 'local', size: 'small' }
  return (await client.call('POST', '/databases', { body, claims: { tenant } })).status
}

test.each([
  ['of a length', `Content-Length: ${bodyLimit}`],
  ['in chunks', 'Transfer-Encoding: chunked'],
])(
  'refuses bodies %s that do not arrive above a tenant’s share, and releases memory when the tenant disconnects',
  async (how, announced) => {
    const tenant = `greedy ${how}`
    expect(await create(tenant, 'before')).toBe(200)
    const answers = await Promise.all(Array.from({ length: 40 }, () => begin(tenant, announced)))
    const refused = () => answers.filter(answer => answer().startsWith('HTTP/1.1 429')).length
    await until(() => refused() === 32)
    expect(answers.map(answer => answer()).join('')).toMatch(/retry-after: 1/)
    // This tenant is at its limit; other tenants are not.
    expect(await create(tenant, 'meanwhile')).toBe(429)
    expect(await create(`modest ${how}`, 'meanwhile')).toBe(200)
    for (const socket of sockets.splice(0)) socket.destroy()
    await until(async () => (await create(tenant, 'after')) !== 429)
  },
)

test('a client that disconnects while its token is verified uses no memory', async () => {
  for (let n = 0; n < 20; n++) {
    // Verifying a token for the first time takes longer.
    const { authorization } = await bearer({ tenant: 'hasty', sub: `member-${n}` })
    const answer = beginAt('/managed/v1/databases', `Content-Length: ${bodyLimit}`, `Authorization: ${authorization}`)
    const socket = sockets.at(-1)
    await once(socket as Socket, 'connect')
    if (n % 2 === 1) await new Promise(resolve => setImmediate(resolve))
    socket?.resetAndDestroy()
    await new Promise(resolve => setTimeout(resolve, 5))
    expect(answer()).toBe('')
  }
  await until(async () => (await create('hasty', 'after')) !== 429)
})

test('never adds up bodies that arrive completely one after another', async () => {
  const padded = `{"name": "no name"${' '.repeat(bodyLimit - 100)}}`
  for (let n = 0; n < 20; n++) expect((await client.call('POST', '/databases', { body: padded })).status).toBe(400)
})

test.each([
  ['/managed/v1/databases', '401'],
  ['/managed/v1/nothing', '404'],
  ['/nothing', '404'],
  ['/managed/v1/openapi.json', '405'],
  ['/docs', '405'],
])('the body of an unauthenticated client is not read at %s: %s before any body', async (path, status) => {
  const answer = beginAt(path, `Content-Length: ${bodyLimit}`)
  await until(() => answer().startsWith(`HTTP/1.1 ${status}`))
})
