import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { temporaryDirectory } from '../../operator/postgres/testing/postgres.ts'
import { createArchiveClient } from './client.ts'
import { contentOf, createArchiveTransport } from './transport.ts'

const authority = createAuthority()
const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
const directory = temporaryDirectory('transport')
const options = { idleMs: 5_000, mostBytes: 1000 }
let answer = (response: ServerResponse): void => void response.end('stored')
const server = createServer(
  { ...own, ca: authority.cert, requestCert: true, rejectUnauthorized: true },
  (request, response) => {
    request.resume()
    answer(response)
  },
)
let url: string

const write = (name: string, text: string): void => writeFileSync(join(directory, name), text)
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  write('ca.crt', authority.cert)
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  rmSync(directory, { recursive: true, force: true })
})

test('a certificate that is read during its replacement causes one failed request', async () => {
  const [old, renewed] = [1, 2].map(() => issueClientCertificate(authority, { commonName: 'test' }))
  const transport = createArchiveTransport(url, directory, () => 0)
  write('archive.crt', renewed?.cert ?? '')
  write('archive.key', old?.key ?? '')
  await expect(transport.send('GET', '/object', options)).rejects.toThrow(/key values mismatch/)
  write('archive.key', renewed?.key ?? '')
  expect((await transport.send('GET', '/object', options)).body.toString()).toBe('stored')
  transport.close()
})

test('a response that is too large, or ends early, is refused', async () => {
  const { cert, key } = issueClientCertificate(authority, { commonName: 'test' })
  write('archive.crt', cert)
  write('archive.key', key)
  const transport = createArchiveTransport(url, directory, () => 0)
  answer = response => void response.end(Buffer.alloc(1001))
  await expect(transport.send('GET', '/object', options)).rejects.toMatchObject({ code: 'answer' })
  answer = response => {
    response.writeHead(200, { 'content-length': 1000 })
    response.write('a part of it', () => response.destroy())
  }
  await expect(transport.send('GET', '/object', options)).rejects.toThrow()
  transport.close()
})

test('a 404 is an error for PUT and DELETE, and means missing for GET', async () => {
  const uris = ['urn:espalier:archive:0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001:1']
  const { cert, key } = issueClientCertificate(authority, { commonName: 'test', uris })
  write('archive.crt', cert)
  write('archive.key', key)
  const client = createArchiveClient(url, directory, () => 0)
  answer = response => {
    response.writeHead(404)
    response.end('{"code": "not_found", "message": "there is no such path"}')
  }
  const signal = AbortSignal.timeout(5_000)
  const content = contentOf(Buffer.from('a segment'))
  await expect(client.send('PUT', 'wal/x', { content, signal })).rejects.toMatchObject({ code: 'not_found' })
  await expect(client.send('DELETE', 'backups/x', { signal })).rejects.toThrow('there is no such path')
  expect((await client.send('GET', 'wal/x', { signal })).status).toBe(404)
  client.close()
})
