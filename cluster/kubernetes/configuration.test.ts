/** Authentication and TLS as a kubeconfig specifies them, against servers with their own certificates. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { refusal } from '../testing/conformance/suite.ts'
import { type LoopbackCertificate, loopback1, loopback2 } from '../testing/loopback-certificates.ts'
import { startScriptedServer, writeKubeconfig } from '../testing/scripted-server.ts'
import { findAccess } from './configuration.ts'

const key = { namespace: 'default', name: 'one' }
let directory: string
const headers: (string | undefined)[] = []

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-access-'))
})
afterEach(() => {
  vi.useRealTimers()
  headers.length = 0
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const serve = (tls: LoopbackCertificate, user: object, ca = tls.cert) =>
  startScriptedServer(
    (request, response) => {
      headers.push(request.headers.authorization)
      response.end('{"metadata":{}}')
    },
    { tls: { ...tls, ca }, user },
  )

describe('TLS', () => {
  test('a server of the configured authority is trusted', async () => {
    const cluster = await (await serve(loopback1, { token: 'a-token' })).connect()
    await cluster.get('ConfigMap', key)
    expect(headers).toEqual(['Bearer a-token'])
  })

  test('a server of another authority is refused, and never receives the token', async () => {
    const cluster = await (await serve(loopback1, { token: 'a-token' }, loopback2.cert)).connect()
    await refusal(cluster.get('ConfigMap', key), 'Unavailable')
    expect(headers).toEqual([])
  })

  test('a server with a certificate for another address is refused', async () => {
    const cluster = await (await serve(loopback2, { token: 'a-token' })).connect()
    await refusal(cluster.get('ConfigMap', key), 'Unavailable')
    expect(headers).toEqual([])
  })

  test('a server without TLS is refused at once, unless the kubeconfig allows it', async () => {
    const kubeconfig = writeKubeconfig(directory, { server: 'http://127.0.0.1:1' }, { token: 'a-token' })
    await expect(findAccess(kubeconfig)).rejects.toThrow(/without TLS/)
  })
})

describe('credentials', () => {
  test('a token file is read again within a minute of its rotation', async () => {
    const tokenFile = join(directory, 'token')
    writeFileSync(tokenFile, 'first')
    const user = { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } }
    const cluster = await (await serve(loopback1, user)).connect()
    await cluster.get('ConfigMap', key)
    writeFileSync(tokenFile, 'second')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
    await cluster.get('ConfigMap', key)
    expect(headers).toEqual(['Bearer first', 'Bearer second'])
  })

  test('an unreadable token file is Unavailable, and is read again later', async () => {
    const tokenFile = join(directory, 'later')
    const user = { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } }
    const cluster = await (await serve(loopback1, user)).connect()
    expect((await refusal(cluster.get('ConfigMap', key), 'Unavailable')).message).toContain('credentials')
    writeFileSync(tokenFile, 'there')
    await cluster.get('ConfigMap', key)
    expect(headers).toEqual(['Bearer there'])
  })

  test('an exec plugin is run', async () => {
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'made' },
    }
    const user = {
      exec: {
        apiVersion: 'client.authentication.k8s.io/v1',
        command: process.execPath,
        args: ['-e', `console.log(${JSON.stringify(JSON.stringify(credential))})`],
      },
    }
    const cluster = await (await serve(loopback1, user)).connect()
    await cluster.get('ConfigMap', key)
    expect(headers).toEqual(['Bearer made'])
  })
})

describe('a kubeconfig', () => {
  test('that is missing, or has no current context, is reported', async () => {
    await expect(findAccess(join(directory, 'absent'))).rejects.toThrow(/absent/)
    const empty = join(directory, 'empty')
    writeFileSync(empty, JSON.stringify({ clusters: [], users: [], contexts: [] }))
    await expect(findAccess(empty)).rejects.toThrow(/no cluster to connect to: .*empty/)
  })
})
