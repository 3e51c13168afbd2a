/** The API over TLS: with its first certificate, and then with the next certificate. */
import { connect, type TLSSocket } from 'node:tls'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { definitionOf } from '../crds/definition.ts'
import { declarations } from '../crds/index.ts'
import { openStore, type Store } from '../embedded/store/index.ts'
import { createAuthority, issueServerCertificate } from '../operator/pki/index.ts'
import { type Api, startApi } from './index.ts'
import { configurationOf, seed } from './testing/harness.ts'

const logger = pino({ level: 'silent' })
const authority = createAuthority()
const issue = (name: string) => issueServerCertificate(authority, { dnsNames: [name], ipAddresses: ['127.0.0.1'] })
const first = issue('first.test')
let store: Store
let api: Api

beforeEach(async () => {
  store = await openStore({ definitions: Object.values(declarations).map(definitionOf), logger })
  const cluster = store.connect('test')
  await seed(cluster)
  const configuration = configurationOf({ listen: { port: 0 } })
  api = await startApi({ cluster, configuration, certificate: first, logger })
})
afterEach(async () => {
  await api.stop()
  await store.close()
})

const port = () => Number(new URL(api.address).port)
const open = (): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: port(), ca: authority.cert }, () => resolve(socket))
    socket.on('error', reject)
  })
const get = (socket: TLSSocket): Promise<string> =>
  new Promise((resolve, reject) => {
    socket.once('data', data => resolve(data.toString('utf8')))
    socket.once('error', reject)
    socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
  })

test('serves verifiable TLS, and has https in its address', async () => {
  expect(api.address).toMatch(/^https:\/\/127\.0\.0\.1:[0-9]+$/)
  const socket = await open()
  expect(socket.authorized).toBe(true)
  expect(await get(socket)).toMatch(/^HTTP\/1\.1 200 /)
  socket.destroy()
})

test('serves new connections with a new certificate, and closes no open connection', async () => {
  const before = await open()
  api.setCertificate(issue('second.test'))
  const after = await open()
  expect(after.getPeerCertificate().subject.CN).toBe('second.test')
  expect(await get(before)).toMatch(/^HTTP\/1\.1 200 /)
  for (const socket of [before, after]) socket.destroy()
})

test('keeps its certificate if the next certificate is invalid', async () => {
  expect(() => api.setCertificate({ cert: 'none', key: first.key })).toThrow()
  const socket = await open()
  expect(socket.getPeerCertificate().subject.CN).toBe('first.test')
  socket.destroy()
})
