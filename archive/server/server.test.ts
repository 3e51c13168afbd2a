/** Tests the archive's server with real TLS requests and a directory store. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { followsOther } from '../../instance/archive/predecessor.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { identityOf } from '../names.ts'
import { archiveKey } from '../object/key.ts'
import { openDirectoryStore } from '../store/directory.ts'
import type { ObjectStore } from '../store/store.ts'
import { createArchiveMetrics } from './metrics.ts'
import { type ArchiveServer, startArchiveServer } from './server.ts'

const authority = createAuthority()
const databaseId = '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001'
const own = { databaseId, number: 1 }
const certified = (uris: string[], by = authority) =>
  issueClientCertificate(by, { commonName: 'espalier-archive', uris })
const client = certified([identityOf(own)])
const keys = { current: archiveKey(randomBytes(32)), previous: [] }
const path = (file: string, { databaseId, number } = own) => `/v1/${databaseId}/${number}/wal/${file}`
const segment = (number: number) => `0000000100000000${number.toString(16).toUpperCase().padStart(8, '0')}`

let root: string
let store: ObjectStore
let storeDelayMs = 0
let server: ArchiveServer
const metrics = createArchiveMetrics()
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'espalier-archive-'))
  store = await openDirectoryStore(root)
  const issued = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  server = await startArchiveServer({
    store: {
      ...store,
      create: async (...args) => {
        await new Promise(resolve => setTimeout(resolve, storeDelayMs))
        return store.create(...args)
      },
    },
    keys,
    certificates: { ...issued, ca: authority.cert },
    listen: { host: '127.0.0.1', port: 0 },
    limits: { listed: 3, idleMs: 1000 },
    metrics,
    logger: pino({ level: 'silent' }),
  })
})
afterAll(async () => {
  await server.stop(1000)
  rmSync(root, { recursive: true, force: true })
})

type Sent = {
  body?: Uint8Array
  headers?: Record<string, string | number>
  certificate?: { cert: string; key: string } | undefined
}
type Answer = { status: number | undefined; headers: IncomingMessage['headers']; body: Buffer }

async function call(method: string, target: string, sent: Sent = {}): Promise<Answer> {
  const { body = Buffer.alloc(0), headers = {}, certificate = client } = sent
  const { port } = server.address
  const options = { host: '127.0.0.1', port, method, path: target, headers, ca: authority.cert, ...certificate }
  const sending = request({ ...options, agent: false })
  sending.end(body)
  const [response] = (await once(sending, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }
}
const digestOf = (body: Uint8Array) => `sha-256=:${createHash('sha256').update(body).digest('base64')}:`
const put = (target: string, body: Uint8Array, sent: Omit<Sent, 'body'> = {}) =>
  call('PUT', target, { body, ...sent, headers: { 'content-digest': digestOf(body), ...sent.headers } })

test('a segment is read as it was archived, and is encrypted in the store', async () => {
  const wal = Buffer.alloc(16 * 1024 * 1024, 'a row of the user ')
  expect(await put(path(segment(1)), wal)).toMatchObject({ status: 201 })
  const read = await call('GET', path(segment(1)))
  expect(read.status).toBe(200)
  expect(read.body.equals(wal)).toBe(true)
  expect(read.headers['content-digest']).toBe(digestOf(wal))
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  for (const { parentPath, name } of files)
    expect(readFileSync(join(parentPath, name)).includes('a row of the user')).toBe(false)
})

test('repeating a PUT succeeds; a PUT of other content is refused, and the object stays unchanged', async () => {
  const [wal, other] = [randomBytes(100_000), randomBytes(100_000)]
  expect(await put(path(segment(2)), wal)).toMatchObject({ status: 201 })
  expect(await put(path(segment(2)), wal)).toMatchObject({ status: 200 })
  const refused = await put(path(segment(2)), other)
  expect(refused.status).toBe(409)
  expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'conflict' })
  expect((await call('GET', path(segment(2)))).body.equals(wal)).toBe(true)
})

test('the server keeps an idle connection open for longer than a minute', async () => {
  const { headers } = await call('HEAD', path(segment(2)), { headers: { connection: 'keep-alive' } })
  expect(headers['keep-alive']).toBe('timeout=65')
})

test('the archive refuses one of two servers that send different content under one name at the same time', async () => {
  const results = await Promise.all(
    [randomBytes(3_000_000), randomBytes(3_000_000)].map(wal => put(path(segment(3)), wal)),
  )
  expect(results.map(({ status }) => status).sort()).toEqual([201, 409])
})

test('content whose digest differs from the stated digest is not archived', async () => {
  const wal = randomBytes(5000)
  const wrong = await put(path(segment(4)), wal, { headers: { 'content-digest': digestOf(Buffer.from('other')) } })
  expect(wrong.status).toBe(400)
  expect((await call('GET', path(segment(4)))).status).toBe(404)
})

const announced = (content: Uint8Array) => ({
  ...{ 'content-encoding': 'zstd', 'espalier-length': content.length, 'unencoded-digest': digestOf(content) },
})
const putCompressed = (target: string, body: Uint8Array, content: Uint8Array, headers: Sent['headers'] = {}) =>
  call('PUT', target, { body: Buffer.from(body), headers: { ...announced(content), ...headers } })

test('a compressed and a plain PUT store the same object, and GET returns it compressed or plain', async () => {
  const wal = Buffer.alloc(3_000_000, 'a row of the user ')
  const target = path(segment(21))
  expect(await putCompressed(target, zstdCompressSync(wal), wal, { 'transfer-encoding': 'chunked' })).toMatchObject({
    status: 201,
    headers: { 'accept-encoding': 'zstd' },
  })
  expect(await put(target, wal)).toMatchObject({ status: 200 })
  expect((await putCompressed(target, zstdCompressSync(Buffer.from('x')), Buffer.from('x'))).status).toBe(409)
  expect((await call('GET', target)).body.equals(wal)).toBe(true)
  const { headers, body } = await call('GET', target, { headers: { 'accept-encoding': 'zstd' } })
  expect(headers).toMatchObject({ ...announced(wal), 'espalier-length': String(wal.length) })
  expect(body.length).toBeLessThan(wal.length / 10)
  expect(zstdDecompressSync(body).equals(wal)).toBe(true)
})

const large = Buffer.alloc(3_000_000, 'a row of the user ')
const compressed = zstdCompressSync(large)
test.each<[string, Uint8Array, Uint8Array, Sent['headers'], number]>([
  ['with another digest', compressed, large, { 'unencoded-digest': digestOf(Buffer.from('other')) }, 400],
  ['that ends early', compressed.subarray(0, -1), large, {}, 400],
  ['that is not zstd', Buffer.alloc(1000, 'x'), large, {}, 400],
  ['longer than its stated length', compressed, large, { 'espalier-length': 1000 }, 400],
  ['shorter than its stated length', compressed, large, { 'espalier-length': large.length + 1 }, 400],
  ['with a byte after its end', Buffer.concat([compressed, Buffer.alloc(1)]), large, {}, 400],
  ['in two zstd streams', Buffer.concat([compressed, compressed]), large, {}, 400],
  ['with many bytes after its end', Buffer.concat([compressed, randomBytes(4_000_000)]), large, {}, 400],
  ['with an invalid length', compressed, large, { 'espalier-length': 'x' }, 400],
  ['with another coding', compressed, large, { 'content-encoding': 'gzip' }, 415],
])('compressed content %s is refused', async (_, body, content, headers, status) => {
  expect(await putCompressed(path(segment(22)), body, content, headers)).toMatchObject({ status })
  expect((await call('GET', path(segment(22)))).status).toBe(404)
})

test('a salt identifies the previous segment; with a predecessor, GET of a tail omits streams with another previous segment', async () => {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const after = (text: string) => ({ 'espalier-predecessor': digestOf(Buffer.from(text)) })
  const target = path(segment(31))
  expect(await put(target, Buffer.from('second'), { headers: after('first') })).toMatchObject({ status: 201 })
  const salt = Buffer.from(String((await call('GET', target)).headers['espalier-salt']), 'base64')
  expect([followsOther(salt, digest('first')), followsOther(salt, digest('other'))]).toEqual([false, true])

  const tail = `/v1/${databaseId}/1/tail/${segment(32)}`
  const piece = (stream: string, bytes: Buffer, before: string) =>
    put(`${tail}.00000000-0000000${bytes.length}.${stream.repeat(16)}`, bytes, { headers: after(before) })
  expect(await piece('a', Buffer.from('longer'), 'other')).toMatchObject({ status: 201 })
  expect(await piece('b', Buffer.from('less'), 'second')).toMatchObject({ status: 201 })
  expect((await call('GET', tail)).body.toString()).toBe('longer')
  expect((await call('GET', tail, { headers: after('second') })).body.toString()).toBe('less')
  expect((await call('GET', tail, { headers: after('third') })).status).toBe(404)
  for (const [method, of] of [
    ['PUT', path(segment(33))],
    ['GET', tail],
  ] as const) {
    const headers = { 'espalier-predecessor': 'x', 'content-digest': digestOf(Buffer.alloc(0)) }
    expect(await call(method, of, { headers })).toMatchObject({ status: 400 })
  }
})

test('after a client disconnects during a segment, no partial file exists, and the client can retry', async () => {
  const wal = randomBytes(1_000_000)
  const { port } = server.address
  const headers = { 'content-digest': digestOf(wal), 'content-length': wal.length }
  const options = { host: '127.0.0.1', port, method: 'PUT', path: path(segment(5)), headers, ca: authority.cert }
  const sending = request({ ...options, ...client, agent: false }).on('error', () => {})
  sending.write(wal.subarray(0, 500_000))
  await new Promise(resolve => setTimeout(resolve, 200))
  sending.destroy()
  await expect
    .poll(() => readdirSync(root, { recursive: true }).some(name => String(name).includes('.partial-')))
    .toBe(false)
  expect((await call('HEAD', path(segment(5)))).status).toBe(404)
  expect(await put(path(segment(5)), wal)).toMatchObject({ status: 201 })
  expect(await call('HEAD', path(segment(5)))).toMatchObject({
    status: 204,
    headers: { 'content-digest': digestOf(wal) },
  })
})

test('a client that sends nothing for longer than the idle timeout is disconnected', async () => {
  const headers = { 'content-digest': digestOf(Buffer.from('x')), 'content-length': 1000 }
  const { port } = server.address
  const options = { host: '127.0.0.1', port, method: 'PUT', path: path(segment(6)), headers, ca: authority.cert }
  const sending = request({ ...options, ...client, agent: false })
  sending.write('only some')
  const [error] = await once(sending, 'error')
  expect(error).toMatchObject({ code: 'ECONNRESET' })
})

test.each([
  ['a URI of another database', identityOf({ databaseId: databaseId.replace('0001', '0002'), number: 1 }), 403],
  ['a URI of another incarnation', identityOf({ databaseId, number: 2 }), 403],
  ['a URI without an incarnation', 'urn:espalier:archive:', 401],
  ['a URI with an invalid number', `urn:espalier:archive:${databaseId}:01`, 401],
  ['a URI of another kind', `urn:espalier:other:${databaseId}:1`, 401],
])('a certificate with %s has no access', async (_, uri, status) => {
  const certificate = certified([uri])
  for (const [method, target] of [
    ['PUT', path(segment(7))],
    ['GET', path(segment(1))],
    ['HEAD', path(segment(1))],
    ['GET', `/v1/${databaseId}/1/wal`],
  ] as const)
    expect(await call(method, target, { certificate })).toMatchObject({ status })
})

test('only a client certificate with one identity, issued by the configured authority, gives access', async () => {
  const other = { databaseId, number: 2 }
  const target = path(segment(1))
  const read = (certificate: Sent['certificate']) => call('GET', target, { certificate })
  expect((await read(certified([identityOf(own), identityOf(other)]))).status).toBe(401)
  expect((await read(certified([identityOf(own)], createAuthority()))).status).toBe(401)
  expect((await read(issueServerCertificate(authority, { dnsNames: ['x'] }))).status).toBe(401)
  expect((await read({ cert: '', key: '' }).catch(() => ({ status: 401 }))).status).toBe(401)
})

test.each([
  ['GET', '/', 404],
  ['GET', `/v1/${databaseId}/1`, 405],
  ['GET', `/v1/${databaseId}/1/`, 404],
  ['GET', `/v1/${databaseId}/0/wal`, 404],
  ['GET', `/v1/${databaseId.toUpperCase()}/1/wal`, 404],
  ['GET', `/v1/${databaseId}/1/wal/..%2f..%2fkey-check`, 400],
  ['GET', `/v1/${databaseId}/1/wal/../../key-check`, 404],
  ['GET', `/v1/${databaseId}/1/wal/${segment(1).toLowerCase().replace(/0/g, 'a')}`, 400],
  ['GET', `/v1/${databaseId}/1/wal/${segment(1)}?x`, 404],
  ['GET', `/v1/${databaseId}/1/wal?after=x`, 400],
  ['DELETE', path(segment(1)), 405],
  ['POST', `/v1/${databaseId}/1/wal`, 405],
])('%s %s is refused with %i', async (method, target, status) => {
  expect(await call(method, target)).toMatchObject({ status })
})

test.each([
  ['no digest', {}, 400],
  ['another algorithm', { 'content-digest': 'md5=:AAAAAAAAAAAAAAAAAAAAAA==:' }, 400],
  [
    'a body that is too large',
    { 'content-digest': digestOf(Buffer.from('')), 'content-length': 64 * 1024 * 1024 + 1 },
    413,
  ],
  ['no length', { 'content-digest': digestOf(Buffer.from('x')), 'transfer-encoding': 'chunked' }, 411],
])('a segment with %s is refused', async (_, headers: Record<string, string | number>, status) => {
  expect(await call('PUT', path(segment(8)), { body: Buffer.from('x'), headers })).toMatchObject({ status })
})

test('a list contains WAL files in order, in pages', async () => {
  const incarnation = { databaseId, number: 9 }
  const certificate = certified([identityOf(incarnation)])
  const names = [segment(1), segment(2), `${segment(2)}.00000028.backup`, segment(3), '00000002.history']
  for (const name of names)
    expect(await put(path(name, incarnation), Buffer.from(name), { certificate })).toMatchObject({ status: 201 })
  const list = async (query = '') =>
    JSON.parse((await call('GET', `/v1/${databaseId}/9/wal${query}`, { certificate })).body.toString())
  const sorted = names.toSorted()
  expect(await list()).toEqual({ files: sorted.slice(0, 3), hasMore: true })
  expect(await list(`?after=${sorted[2]}`)).toEqual({ files: sorted.slice(3), hasMore: false })
})

test("reading a damaged object returns an error with the object's name, or aborts the body", async () => {
  const wal = randomBytes(3_000_000)
  await put(path(segment(10)), wal)
  const file = join(root, databaseId, '1', 'wal', segment(10))
  const object = readFileSync(file)
  writeFileSync(file, object.with(20, object[20] === 32 ? 33 : 32))
  const damaged = await call('GET', path(segment(10)))
  expect(damaged.status).toBe(500)
  expect(damaged.body.toString()).toContain(segment(10))
  expect(await put(path(segment(10)), wal)).toMatchObject({ status: 500 })
  writeFileSync(file, object.subarray(0, -1))
  await expect(call('GET', path(segment(10)))).rejects.toThrow('aborted')
})

test('a client does not time out while a store is slower than the idle timeout', async () => {
  storeDelayMs = 1_500
  onTestFinished(() => {
    storeDelayMs = 0
  })
  const wal = randomBytes(1000)
  const { port } = server.address
  const headers = { 'content-digest': digestOf(wal), 'content-length': wal.length }
  const options = { host: '127.0.0.1', port, method: 'PUT', path: path(segment(11)), headers, ca: authority.cert }
  // An agent times out if it receives nothing.
  const sending = request({ ...options, ...client, agent: false, timeout: 1000 })
  sending.once('timeout', () => sending.destroy(new Error('no bytes received')))
  sending.end(wal)
  const [response] = (await once(sending, 'response')) as [IncomingMessage]
  response.resume()
  expect(response.statusCode).toBe(201)
})

test('metrics count requests; clients cannot add label values', async () => {
  await call('PROPFIND', path(segment(1)))
  const text = await metrics.registry.metrics()
  expect(text).toContain('espalier_archive_request_duration_seconds_count{method="other",status="405"} ')
  expect(text).toMatch(/espalier_archive_stored_bytes_total [1-9]/)
  expect(text).toMatch(/espalier_archive_transfers 0/)
})
