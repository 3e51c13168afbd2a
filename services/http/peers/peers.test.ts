/**
 * Attacks on the traffic between replicas: forged, modified and replayed handles and envelopes, impostors at a
 * replica's address, loops, and headers that must not reach the client.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { sendRequest } from '../../testing/client.ts'
import { freePort } from '../../testing/postgres.ts'
import { closeServer, listen } from '../listen.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../message.ts'
import { readBody } from '../read-body.ts'
import { makeServer } from '../server.ts'
import { Envelopes } from './envelope.ts'
import { Handles } from './handles.ts'
import { PeerFailure, Peers } from './index.ts'

const secret = 's'.repeat(32)
const address = { host: '127.0.0.1', port: 1 }
const head: RequestHead = {
  method: 'POST',
  path: '/x',
  query: 'a=b',
  headers: { authorization: 'Bearer of-a-client' },
  address: '192.0.2.1',
}
const signal = new AbortController().signal
const utf8 = (text: string) => Buffer.from(text)

test('a handle is deterministic; reading a handle needs its secret, service and kind', () => {
  const [own, replica] = [new Handles({ address, secret }, 'a'), new Handles({ address, secret }, 'a')]
  fc.assert(
    fc.property(fc.string(), inner => {
      const handle = own.mint('task', inner)
      expect(own.mint('task', inner)).toBe(handle)
      expect(own.read('task', handle)).toEqual({ inner, owner: undefined })
      expect(replica.read('task', handle)).toEqual({ inner, owner: own.self })
      const unread = { inner: handle, owner: undefined }
      expect(replica.read('session', handle)).toEqual(unread)
      expect(new Handles({ address, secret }, 'b').read('task', handle)).toEqual(unread)
      expect(new Handles({ address, secret: 't'.repeat(32) }, 'a').read('task', handle)).toEqual(unread)
    }),
  )
})

test('only valid handles name an owner', () => {
  const [own, replica] = [new Handles({ address, secret }, 'a'), new Handles({ address, secret }, 'a')]
  const handle = own.mint('task', 'inner')
  const seal = handle.slice(handle.indexOf('~') + 1)
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map(text => `inner~${text}`),
        fc.string().map(text => `${text}~${seal}`),
        fc.tuple(fc.nat(handle.length - 1), fc.constantFrom('A', '_', '~', '.', ' ', '=')).map(([at, character]) => {
          return handle.slice(0, at) + character + handle.slice(at + 1)
        }),
        fc.constantFrom(
          `${handle}=`,
          `${handle}\n`,
          ` ${handle}`,
          handle.repeat(2),
          `~${seal}`,
          '~',
          '~'.repeat(5_000),
        ),
      ),
      text => {
        const { owner } = replica.read('task', text)
        if (text !== handle) expect(owner).toBeUndefined()
      },
    ),
    { numRuns: 2_000 },
  )
})

test('only the addressed process can open an envelope: once, unmodified and before its expiry', () => {
  let now = 1_000_000
  const self = { ...address, instance: 'one' }
  const clock = () => now
  const own = new Envelopes(secret, 'a', self, clock)
  const { bytes, isProof } = own.seal(self, { head, body: utf8('body') })
  expect(new Envelopes(secret, 'a', { ...self, instance: 'two' }, clock).open(bytes)).toBeUndefined()
  expect(new Envelopes('t'.repeat(32), 'a', self, clock).open(bytes)).toBeUndefined()
  expect(new Envelopes(secret, 'b', self, clock).open(bytes)).toBeUndefined()
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes)
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
    expect(own.open(changed)).toBeUndefined()
    expect(own.open(bytes.subarray(0, at))).toBeUndefined()
  }
  expect(bytes.toString('latin1')).not.toContain('of-a-client')
  const opened = own.open(bytes)
  expect(opened).toMatchObject({ head, body: utf8('body') })
  expect(isProof(opened?.proof)).toBe(true)
  for (const wrong of [undefined, '', opened?.proof.slice(1), [opened?.proof]]) expect(isProof(wrong)).toBe(false)
  expect(own.open(bytes)).toBeUndefined()
  const late = own.seal(self, { head, body: utf8('') })
  now += 61_000
  expect(own.open(late.bytes)).toBeUndefined()
  now += 60_000
  expect(own.open(bytes)).toBeUndefined()
})

/** A server that returns the request that it received, and forwards requests for state of another process. */
async function serve() {
  const port = await freePort()
  const peers = new Peers({ address: { host: '127.0.0.1', port }, secret }, 'a')
  const seen: RequestHead[] = []
  async function answer(own: RequestHead, body: Buffer, disconnected: AbortSignal): Promise<HttpResponse> {
    seen.push(own)
    const { owner } = peers.read('session', own.headers['mcp-session-id'] ?? '')
    if (owner !== undefined && !peers.isForwarded(own)) {
      const elsewhere = await peers.forward(owner, { head: own, body, signal: disconnected })
      return elsewhere ?? { status: 404, headers: [], body: 'gone' }
    }
    if (own.path === '/stream')
      return {
        status: 200,
        headers: [['Content-Type', 'text/event-stream']],
        body: undefined,
        stream: async out => {
          out.write('data: 1\n\n')
          await new Promise(resolve => disconnected.addEventListener('abort', resolve))
          ended.push(own.path)
        },
      }
    const headers = [
      ['Content-Type', 'application/json'],
      ['Set-Cookie', 'a=b'],
      ['X-Other', 'x'],
    ] as const
    return {
      status: 201,
      headers: [...headers],
      body: JSON.stringify({ at: port, path: own.path, body: body.toString() }),
    }
  }
  const ended: string[] = []
  const server = makeServer({
    product: 'test',
    maximumBodyBytes: 1_000_000,
    maximumHeaderBytes: 16_384,
    rules: () => ({ cors: undefined, traceHeader: undefined }),
    handle: async (own, body, disconnected) => {
      const read = async (one: RequestHead, its: IncomingBody) => answer(one, await readBody(its), disconnected)
      return (await peers.serve(own, body, read)) ?? read(own, body)
    },
    renderError: error => ({ status: error instanceof PeerFailure ? 502 : 500, headers: [], body: '' }),
  })
  await listen(server, { host: '127.0.0.1', port })
  const stop = async () => {
    await closeServer(server, 100)
    peers.close()
  }
  onTestFinished(stop)
  return { port, peers, seen, ended, stop }
}

test('a request reaches the owner of its session unmodified, and the client receives only the allowed headers', async () => {
  const [one, two] = [await serve(), await serve()]
  const headers = {
    'Mcp-Session-Id': one.peers.mint('session', 'x'),
    'X-Espalier-Peer': 'forged',
    Authorization: 'Bearer t',
  }
  const answer = await sendRequest(two.port, '/deep?q=1', { method: 'POST', headers, body: 'hello' })
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.text)).toEqual({ at: one.port, path: '/deep', body: 'hello' })
  expect(answer.headers).toMatchObject({ 'content-type': 'application/json' })
  for (const name of ['x-espalier-peer', 'set-cookie', 'x-other']) expect(answer.headers[name]).toBeUndefined()
  expect(one.seen[0]).toMatchObject({
    method: 'POST',
    query: 'q=1',
    address: '127.0.0.1',
    headers: { authorization: 'Bearer t' },
  })
})

test('a forwarded request is not forwarded again', async () => {
  const [one, two] = [await serve(), await serve()]
  // The session belongs to the forwarding process. The receiving process must answer the request itself, and must not
  // forward it again.
  const headers = { 'mcp-session-id': two.peers.mint('session', 'x') }
  const { owner } = two.peers.read('session', one.peers.mint('session', 'y'))
  if (owner === undefined) throw new Error('the handle has no owner')
  const answer = await two.peers.forward(owner, { head: { ...head, headers }, body: utf8(''), signal })
  expect(answer?.status).toBe(201)
  expect([one.seen.length, two.seen.length]).toEqual([1, 0])
})

test('a client that disconnects ends its forwarded request', async () => {
  const [one, two] = [await serve(), await serve()]
  const controller = new AbortController()
  const headers = { 'Mcp-Session-Id': one.peers.mint('session', 'x') }
  const response = await fetch(`http://127.0.0.1:${two.port}/stream`, { headers, signal: controller.signal })
  const first = await response.body?.getReader().read()
  expect(Buffer.from(first?.value ?? []).toString()).toBe('data: 1\n\n')
  controller.abort()
  while (one.ended.length === 0) await new Promise(resolve => setTimeout(resolve, 10))
})

test('a process at the address of a stopped replica can neither read requests nor answer them', async () => {
  const [stopped, here] = [await serve(), await serve()]
  const session = stopped.peers.mint('session', 'x')
  await stopped.stop()
  expect((await sendRequest(here.port, '/', { headers: { 'Mcp-Session-Id': session } })).text).toBe('gone')
  let read = ''
  const impostor = createServer((request, response) => {
    request.on('data', piece => {
      read += piece.toString('latin1')
    })
    request.on('end', () => response.writeHead(200, { 'X-Espalier-Peer': 'guess' }).end('{"evil":true}'))
  })
  await new Promise<void>(resolve => impostor.listen(stopped.port, '127.0.0.1', resolve))
  onTestFinished(() => void impostor.close())
  const headers = { 'Mcp-Session-Id': session, Authorization: 'Bearer of-a-client' }
  const answer = await sendRequest(here.port, '/', { method: 'POST', headers, body: 'private' })
  expect([answer.status, answer.text]).toEqual([404, 'gone'])
  expect(read.length).toBeGreaterThan(0)
  expect(read).not.toMatch(/of-a-client|private/)
  expect((impostor.address() as AddressInfo).port).toBe(stopped.port)
})

test('a replica refuses a request above its limit of forwarded requests', async () => {
  const peers = new Peers({ address, secret }, 'a')
  onTestFinished(() => peers.close())
  const to = new Handles({ address, secret }, 'a').self
  const forwarded = { head, body: utf8(''), signal: AbortSignal.abort(new Error('disconnected')) }
  const results = await Promise.allSettled(Array.from({ length: 5_001 }, () => peers.forward(to, forwarded)))
  const messages = results.map(result => (result.status === 'rejected' ? result.reason.message : 'answered'))
  expect(new Set(messages.slice(0, 5_000))).toEqual(new Set(['disconnected']))
  expect(messages.at(-1)).toBe('too many requests are being forwarded to other replicas; try again')
})

test('a client cannot impersonate a replica', async () => {
  const one = await serve()
  for (const body of ['', 'x', Buffer.alloc(1_000, 7)]) {
    const answer = await sendRequest(one.port, '/.espalier/peer', { method: 'POST', body })
    expect([answer.status, answer.headers['x-espalier-peer']]).toEqual([404, undefined])
  }
  expect(one.seen).toEqual([])
})
