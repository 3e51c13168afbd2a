/**
 * Tests tails, base backups, deletion and permissions with real TLS requests and a directory store.
 */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { identityOf } from '../names.ts'
import { archiveKey } from '../object/key.ts'
import { openDirectoryStore } from '../store/directory.ts'
import { createArchiveMetrics } from './metrics.ts'
import { type ArchiveServer, startArchiveServer } from './server.ts'

const authority = createAuthority()
const databaseId = '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001'
const backupId = '0190bbbb-0000-7000-8000-000000000001'
const agentOf = (uri: string) =>
  new Agent({
    ...issueClientCertificate(authority, { commonName: 'x', uris: [uri] }),
    ca: authority.cert,
    keepAlive: true,
  })
const own = `${databaseId}:1`
const agents = {
  writer: agentOf(identityOf({ databaseId, number: 1 })),
  reader: agentOf(`urn:espalier:archive:read:${own}`),
  otherReader: agentOf(`urn:espalier:archive:read:${databaseId}:2`),
  operator: agentOf('urn:espalier:archive:operator'),
}
type Who = keyof typeof agents
const segment = (number: number, timeline = 1) =>
  `${[timeline, 0, number].map(part => part.toString(16).toUpperCase().padStart(8, '0')).join('')}`
const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')

let root: string
let server: ArchiveServer
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'espalier-archive-'))
  const issued = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  server = await startArchiveServer({
    store: await openDirectoryStore(root),
    keys: { current: archiveKey(randomBytes(32)), previous: [] },
    certificates: { ...issued, ca: authority.cert },
    listen: { host: '127.0.0.1', port: 0 },
    limits: { listed: 3 },
    metrics: createArchiveMetrics(),
    logger: pino({ level: 'silent' }),
  })
})
afterAll(async () => {
  for (const agent of Object.values(agents)) agent.destroy()
  await server.stop(1000)
  rmSync(root, { recursive: true, force: true })
})

type Answer = { status: number | undefined; headers: IncomingMessage['headers']; body: Buffer }
async function call(
  who: Who,
  method: string,
  path: string,
  body: Buffer = Buffer.alloc(0),
  fields: Record<string, string | number> = {},
): Promise<Answer> {
  const digest = { 'content-digest': `sha-256=:${createHash('sha256').update(body).digest('base64')}:` }
  const headers = { ...(method === 'PUT' ? digest : {}), 'content-length': body.length, ...fields }
  const { port } = server.address
  const sending = request({ agent: agents[who], host: '127.0.0.1', port, method, path, headers })
  sending.end(body)
  const [response] = (await once(sending, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }
}
const base = `/v1/${databaseId}/1`
const json = ({ body }: Answer) => JSON.parse(body.toString())
const put = (path: string, body: Buffer) => call('writer', 'PUT', `${base}/${path}`, body)
const putPiece = (name: string, wal: Buffer, from: number, to: number, stream = '') =>
  put(`tail/${name}.${hex(from)}-${hex(to - from)}${stream}`, wal.subarray(from, to))
const filesOf = (folder: string) => {
  try {
    return readdirSync(join(root, databaseId, '1', folder), { recursive: true }).map(String)
  } catch {
    return []
  }
}

test('a tail is read to the first gap, even if pieces overlap', async () => {
  const [wal, name] = [randomBytes(9000), segment(1)]
  expect(await call('writer', 'GET', `${base}/tail/${name}`)).toMatchObject({ status: 404 })
  expect(await putPiece(name, wal, 100, 3000)).toMatchObject({ status: 201 })
  expect(await call('writer', 'GET', `${base}/tail/${name}`)).toMatchObject({ status: 404 })
  for (const [from, to] of [
    [0, 100],
    [0, 2000],
    [2500, 5000],
    [6000, 9000],
  ] as const)
    expect(await putPiece(name, wal, from, to)).toMatchObject({ status: 201 })
  expect(await putPiece(name, wal, 0, 100)).toMatchObject({ status: 200 })
  expect(await putPiece(name, randomBytes(9000), 0, 100)).toMatchObject({ status: 409 })
  const read = await call('reader', 'GET', `${base}/tail/${name}`)
  expect(read.status).toBe(200)
  expect(read.body.equals(wal.subarray(0, 5000))).toBe(true)
  expect(await call('reader', 'HEAD', `${base}/tail/${name}`)).toMatchObject({ headers: { 'espalier-length': '5000' } })
})

test('pieces of two streams are never joined: the stream that reaches further is returned', async () => {
  const [one, other, name] = [randomBytes(5000), randomBytes(5000), segment(9)]
  const [first, second] = ['.0000000000000001', '.0000000000000002']
  const tail = async () => (await call('reader', 'GET', `${base}/tail/${name}`)).body
  await putPiece(name, one, 0, 1000, first)
  await putPiece(name, one, 1000, 2000, first)
  await putPiece(name, other, 0, 1000, second)
  expect((await tail()).equals(one.subarray(0, 2000))).toBe(true)
  await putPiece(name, other, 1900, 4000, second)
  expect((await tail()).equals(one.subarray(0, 2000))).toBe(true)
  await putPiece(name, other, 1000, 1900, second)
  expect((await tail()).equals(other.subarray(0, 4000))).toBe(true)
  // An agent of an earlier version sends this name.
  await putPiece(name, other, 4000, 5000)
  expect((await tail()).equals(other)).toBe(true)
})

test('only pieces of a completely archived segment are deleted', async () => {
  const wal = randomBytes(3000)
  await putPiece(segment(2), wal, 0, 1000)
  await putPiece(segment(3), wal, 0, 1000)
  expect(await put(`wal/${segment(2)}`, wal)).toMatchObject({ status: 201 })
  expect(await call('reader', 'GET', `${base}/tail/${segment(2)}`)).toMatchObject({ status: 404 })
  expect(await call('reader', 'GET', `${base}/tail/${segment(3)}`)).toMatchObject({ status: 200 })
})

test("the archive checks the digest of a part's compressed bytes, and the digest of a segment's content", async () => {
  const [part, other] = [Buffer.alloc(100_000, 'a row '), Buffer.alloc(100_000, 'other ')]
  const digest = (bytes: Buffer) => `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
  const sent = (path: string, body: Buffer, of = body) =>
    call('writer', 'PUT', `${base}/${path}`, body, {
      ...{ 'content-encoding': 'zstd', 'content-digest': digest(of) },
      ...{ 'unencoded-digest': digest(part), 'espalier-length': part.length },
    })
  const body = zstdCompressSync(part)
  const backup = `backups/${backupId.replace('0001', '0009')}`
  const path = `${backup}/parts/1`
  expect(await sent(path, body, part)).toMatchObject({ status: 400 })
  expect(await sent(path, body.subarray(0, -1), body)).toMatchObject({ status: 400 })
  expect(await sent(path, body)).toMatchObject({ status: 201 })
  expect((await call('reader', 'GET', `${base}/${path}`)).body.equals(part)).toBe(true)
  expect(await sent(`wal/${segment(9)}`, zstdCompressSync(other))).toMatchObject({ status: 400 })
  expect(await sent(`wal/${segment(9)}`, body)).toMatchObject({ status: 201 })
  expect(await call('writer', 'DELETE', `${base}/${backup}`)).toMatchObject({ status: 204 })
})

test.each([
  ['another length than its name states', `tail/${segment(4)}.00000000-00000002`, 400],
  ['more than 4 MiB', `tail/${segment(4)}.00000000-00400001`, 400],
  ['an invalid name', 'tail/x', 400],
])('a piece with %s is refused', async (_, path, status) => {
  expect(await put(path, Buffer.from('x'))).toMatchObject({ status })
})

const content = (bytes: Buffer) => ({ sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length })
const parts = [randomBytes(5000), randomBytes(3000)]
const manifest = Buffer.from('a manifest')
const record = {
  version: 1,
  start: { position: '0/2000028', timeline: 1 },
  end: { position: '0/2000100', timeline: 1 },
  startedAt: '2026-01-31T12:00:00.000Z',
  endedAt: '2026-01-31T12:00:01.000Z',
  parts: parts.map(content),
  manifest: content(manifest),
  bytes: 8000,
}
const asBody = (value: unknown) => Buffer.from(JSON.stringify(value))

test('a record is refused while one of its objects is missing; an accepted record completes the backup', async () => {
  const at = `backups/${backupId}`
  const { parts: _, ...listed } = record
  // The writer itself deletes leftovers of an interrupted attempt.
  await put(`${at}/parts/1`, randomBytes(10))
  expect(await call('writer', 'DELETE', `${base}/${at}`)).toMatchObject({ status: 204 })
  await put(`${at}/parts/1`, parts[0] ?? Buffer.alloc(0))
  await put(`${at}/manifest`, manifest)
  const early = await put(`${at}/record`, asBody(record))
  expect(early.status).toBe(409)
  expect(json(early).message).toContain('base/00000002')
  expect(json(await call('operator', 'GET', `${base}/backups`))).toEqual({ backups: [], hasMore: false })
  await put(`${at}/parts/2`, parts[1] ?? Buffer.alloc(0))
  const wrong = { ...record, parts: record.parts.toReversed() }
  expect(await put(`${at}/record`, asBody(wrong))).toMatchObject({ status: 409 })
  expect(await put(`${at}/record`, asBody({ ...record, bytes: 1 }))).toMatchObject({ status: 400 })
  expect(await put(`${at}/record`, Buffer.from('{'))).toMatchObject({ status: 400 })
  const done = await put(`${at}/record`, asBody(record))
  expect(done.status).toBe(201)
  expect(json(done).storedBytes).toBeGreaterThan(8000)
  expect(await put(`${at}/record`, asBody(record))).toMatchObject({ status: 200 })
  const { backups } = json(await call('operator', 'GET', `${base}/backups`))
  expect(backups).toEqual([{ id: backupId, ...listed }])
  expect(json(await call('operator', 'GET', `${base}/${at}/record`))).toEqual(record)
  expect((await call('reader', 'GET', `${base}/${at}/parts/2`)).body.equals(parts[1] ?? Buffer.alloc(0))).toBe(true)
  expect((await call('reader', 'GET', `${base}/${at}/manifest`)).body.equals(manifest)).toBe(true)
})

test.each<[Who, string, string, number]>([
  ['reader', 'PUT', `wal/${segment(9)}`, 403],
  ['reader', 'PUT', `backups/${backupId}/record`, 403],
  ['reader', 'DELETE', `backups/${backupId}`, 403],
  ['otherReader', 'GET', `backups/${backupId}/record`, 403],
  ['writer', 'DELETE', `backups/${backupId}`, 403],
  ['writer', 'DELETE', `wal?before=${segment(9)}`, 403],
  ['writer', 'DELETE', '', 403],
  ['operator', 'GET', `wal/${segment(2)}`, 403],
  ['operator', 'HEAD', `wal/${segment(2)}`, 403],
  ['operator', 'GET', `tail/${segment(3)}`, 403],
  ['operator', 'GET', `backups/${backupId}/parts/1`, 403],
  ['operator', 'GET', `backups/${backupId}/manifest`, 403],
  ['operator', 'PUT', `wal/${segment(9)}`, 403],
  ['operator', 'PUT', `backups/${backupId}/record`, 403],
  ['operator', 'DELETE', `wal/${segment(2)}`, 405],
  ['operator', 'DELETE', 'wal', 400],
  ['operator', 'DELETE', 'wal?before=x', 400],
  ['operator', 'GET', 'backups?after=x', 400],
  ['writer', 'PUT', `backups/${backupId}/parts/0`, 404],
  ['writer', 'PUT', 'backups/x/record', 400],
])('%s: %s %s is refused with %i, and changes nothing', async (who, method, path, status) => {
  const before = filesOf('.').toSorted()
  expect(await call(who, method, path === '' ? base : `${base}/${path}`)).toMatchObject({ status })
  expect(filesOf('.').toSorted()).toEqual(before)
})

test('old WAL and its pieces are deleted on all timelines, in pages; timeline histories remain', async () => {
  const files = [10, 11, 12, 13].flatMap(number => [segment(number), segment(number, 2)])
  for (const file of [...files, `${segment(11)}.00000028.backup`, '00000002.history'])
    await put(`wal/${file}`, Buffer.from(file))
  await putPiece(segment(11, 3), randomBytes(10), 0, 10)
  const remove = async () => json(await call('operator', 'DELETE', `${base}/wal?before=${segment(12, 2)}`))
  expect(await remove()).toEqual({ deleted: 3, hasMore: true })
  for (let page = 0; page < 9 && (await remove()).hasMore; page++);
  expect(filesOf('wal').toSorted()).toEqual(
    ['00000002.history', segment(12), segment(13), segment(12, 2), segment(13, 2)].toSorted(),
  )
  expect(filesOf('tail')).toEqual([])
})

test('a backup, and all objects of an incarnation, can be deleted; a repeated deletion succeeds', async () => {
  for (let time = 0; time < 2; time++) {
    expect(await call('operator', 'DELETE', `${base}/backups/${backupId}`)).toMatchObject({ status: 204 })
    expect(filesOf('backups').filter(name => /record|manifest|0000/.test(name.slice(36)))).toEqual([])
  }
  // An unreadable record does not prevent the deletion of the other objects.
  const broken = join(root, databaseId, '1', 'backups', backupId)
  mkdirSync(broken, { recursive: true })
  writeFileSync(join(broken, 'record'), 'not an object of the archive')
  expect((await call('operator', 'GET', `${base}/backups`)).status).toBe(500)
  for (let page = 0; page < 9 && json(await call('operator', 'DELETE', base)).hasMore; page++);
  expect(json(await call('operator', 'DELETE', base))).toEqual({ deleted: 0, hasMore: false })
  expect(filesOf('wal')).toEqual([])
})
