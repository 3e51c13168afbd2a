/** Reads of objects from an archive: compressed, or plain from an earlier version. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { temporaryDirectory } from '../../operator/postgres/testing/postgres.ts'
import { type ArchiveReader, openArchiveReader } from './client.ts'

const content = Buffer.concat([randomBytes(100_000), Buffer.alloc(100_000)])
const hex = createHash('sha256').update(content).digest('hex')
const expected = { sha256: hex, size: content.length }
const digest = (bytes: Buffer) => `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
const fields: Record<string, string | number> = {
  'content-encoding': 'zstd',
  'espalier-length': content.length,
  'unencoded-digest': digest(content),
}
const name = 'backups/0190bbbb-0000-7000-8000-000000000001/parts/1'
const fullName = `0190cccc-0000-4000-8000-000000000002/1/${name}`

type Fields = Record<string, string | number>
let answer: { fields: Fields; body: Buffer }
let accepted: unknown
const directory = temporaryDirectory('reader')
const authority = createAuthority()
const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
const server = createServer({ ...own, ca: authority.cert, requestCert: true }, (request, response) => {
  accepted = request.headers['accept-encoding']
  response.writeHead(200, answer.fields).end(answer.body)
})
let reader: ArchiveReader
beforeAll(async () => {
  const { cert, key } = issueClientCertificate(authority, { commonName: 'test' })
  for (const [file, text] of Object.entries({ 'archive.crt': cert, 'archive.key': key, 'ca.crt': authority.cert }))
    writeFileSync(join(directory, file), text)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const archive = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const [id, incarnation] = [fullName.split('/')[0] ?? '', 1]
  reader = openArchiveReader({ archive, id, incarnation }, { tls: directory, timeoutMs: 0 })
})
afterAll(() => {
  reader.close()
  server.close()
  rmSync(directory, { recursive: true, force: true })
})

test.each<[string, typeof answer]>([
  ['compressed', { fields, body: zstdCompressSync(content) }],
  ['plain', { fields: { 'content-digest': digest(content) }, body: content }],
])('an object that is sent %s has its content', async (_, sent) => {
  answer = sent
  expect((await reader.read(name))?.equals(content)).toBe(true)
  expect((await reader.read(name, expected))?.equals(content)).toBe(true)
  expect(accepted).toBe('zstd')
})

test.each<[string, Fields, Buffer]>([
  ['of another digest', { ...fields, 'unencoded-digest': digest(Buffer.from('other')) }, content],
  ['of more bytes', { ...fields, 'espalier-length': content.length - 1 }, content],
  ['of fewer bytes', { ...fields, 'espalier-length': content.length + 1 }, content],
  ['without a length', { 'content-encoding': 'zstd', 'unencoded-digest': digest(content) }, content],
])('a response %s is not content', async (_, sent, bytes) => {
  answer = { fields: sent, body: zstdCompressSync(bytes) }
  await expect(reader.read(name)).rejects.toThrow(`the archive cannot deliver ${fullName}`)
})

test('a response that cannot be decompressed is refused', async () => {
  answer = { fields, body: zstdCompressSync(content).subarray(0, -10) }
  await expect(reader.read(name)).rejects.toThrow(`the archive cannot deliver ${fullName}`)
  await expect(reader.read(name, expected)).rejects.toThrow(`the archive cannot deliver ${fullName}`)
})

test.each([
  ['digest', { ...expected, sha256: '0'.repeat(64) }],
  ['size', { ...expected, size: 1 }],
])('an object of another %s than expected is damaged, compressed or plain', async (_, other) => {
  answer = { fields, body: zstdCompressSync(content) }
  await expect(reader.read(name, other)).rejects.toThrow(`${fullName} does not match`)
  answer = { fields: { 'content-digest': digest(content) }, body: content }
  await expect(reader.read(name, other)).rejects.toThrow(`${fullName} does not match`)
})
