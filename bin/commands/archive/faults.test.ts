/**
 * Tests faults of an S3 server (gofakes3 behind a proxy) and of the archive: what a database's agent reports, which
 * files it marks as archived, and how it recovers.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { identityOf } from '../../../archive/names.ts'
import { type FaultProxy, startFaultProxy } from '../../../archive/testing/fault-proxy.ts'
import { gofakes3, program, type S3Server, startS3Server } from '../../../archive/testing/s3-servers.ts'
import { createArchiveClient } from '../../../instance/archive/client.ts'
import { createDigests } from '../../../instance/archive/digests.ts'
import { archiveSegments } from '../../../instance/archive/segments.ts'
import { ArchiveState } from '../../../instance/archive/state.ts'
import { openArchiveReader } from '../../../instance/recovery/client.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../../operator/pki/index.ts'
import { freePort, temporaryDirectory } from '../../../operator/postgres/testing/postgres.ts'

/** Processes start slowly on a loaded machine. */
const polling = { timeout: 50_000, interval: 50 }
const isSoak = process.env.ESPALIER_SOAK === '1'
const incarnation = { databaseId: '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001', number: 1 }
const authority = createAuthority()
const keyOf = (byte: number) => `${Buffer.alloc(32, byte).toString('base64')}\n`

let directory: string
let s3: S3Server
let proxy: FaultProxy
let port: number
let health: number
let archive: ChildProcess
let output = ''
let state: ArchiveState
let stopAgent: () => Promise<void>
const path = (...names: string[]): string => join(directory, ...names)
const file = (name: string, content: string | Buffer): void => writeFileSync(path(name), content)

function launch(keys = 'keys'): void {
  const store = ['--store', 's3://archive/faults', '--s3-endpoint', proxy.endpoint, '--s3-path-style']
  const tls = ['--certificate', path('server.crt'), '--key', path('server.key'), '--client-authority', path('ca.crt')]
  const listen = ['--listen', `127.0.0.1:${port}`, '--health', String(health), '--key-file', path(keys)]
  const { accessKeyId = '', secretAccessKey = '' } = s3.settings.credentials ?? {}
  output = ''
  archive = spawn(process.execPath, ['bin/espalier.mjs', 'archive', ...store, ...tls, ...listen], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  })
  for (const stream of [archive.stdout, archive.stderr]) stream?.on('data', chunk => (output += chunk))
}
const started = () => vi.waitFor(() => expect(output).toContain('the archive server is ready'), polling)
async function kill(): Promise<void> {
  const exited = once(archive, 'exit')
  archive.kill('SIGKILL')
  await exited
}
const isReady = async () => (await fetch(`http://127.0.0.1:${health}/readyz`)).status

/** Starts the part of an agent that archives finished segments. The test acts as the agent's Postgres. */
function startAgent(): () => Promise<void> {
  const ending = new AbortController()
  const client = createArchiveClient(`https://127.0.0.1:${port}`, directory, Date.now)
  state = new ArchiveState(Date.now, () => {})
  const options = {
    client,
    state,
    data: path('data'),
    markers: path('markers'),
    log: () => {},
    digests: createDigests(path('data')),
  }
  const ended = archiveSegments({ ...options, signal: ending.signal })
  return async () => {
    ending.abort()
    await ended
    client.close()
  }
}
let finished = 0
/** Writes a finished segment, as Postgres does. */
function finish(): { name: string; content: Buffer } {
  const name = `0000000100000000${(++finished).toString(16).toUpperCase().padStart(8, '0')}`
  const content = randomBytes(300_000)
  file(`data/pg_wal/${name}`, content)
  file(`data/pg_wal/archive_status/${name}.ready`, '')
  return { name, content }
}
const markers = () => readdirSync(path('markers'))
const archived = (name: string) => expect.poll(markers, polling).toContain(name)
const reports = (status: object) => expect.poll(() => state.status(), polling).toMatchObject(status)

if (program(gofakes3) === undefined) test.skip('faults of an S3 server and of the archive', () => {})
else
  describe('faults of an S3 server and of the archive', { timeout: 120_000 }, () => {
    beforeAll(async () => {
      directory = temporaryDirectory('faults')
      mkdirSync(path('data/pg_wal/archive_status'), { recursive: true })
      mkdirSync(path('markers'))
      const own = issueServerCertificate(authority, { dnsNames: [], ipAddresses: ['127.0.0.1'] })
      const client = issueClientCertificate(authority, { commonName: 'x', uris: [identityOf(incarnation)] })
      for (const [name, { cert, key }] of Object.entries({ server: own, archive: client })) {
        file(`${name}.crt`, cert)
        file(`${name}.key`, key)
      }
      file('ca.crt', authority.cert)
      file('keys', keyOf(7))
      file('both-keys', keyOf(8) + keyOf(7))
      s3 = await startS3Server(gofakes3)
      proxy = await startFaultProxy(s3.settings.endpoint ?? '')
      ;[port, health] = [await freePort(), await freePort()]
      launch()
      await started()
      stopAgent = startAgent()
    }, 120_000)
    afterAll(async () => {
      await stopAgent?.()
      archive?.kill('SIGKILL')
      proxy?.stop()
      await s3?.stop()
      rmSync(directory, { recursive: true, force: true })
    })
    afterEach(() => {
      proxy.faultOf = () => undefined
    })
    const failing = (status: number, code: string, of: (path: string) => boolean = () => true) => {
      proxy.faultOf = (_, at) => (of(at) ? { kind: 'answer', status, code } : undefined)
    }

    const answers = [
      [507, 'InsufficientStorage'],
      [403, 'AccessDenied'],
      // The SDK retries for some seconds first.
      ...(isSoak ? ([[503, 'SlowDown']] as const) : []),
    ] as const
    test.each(answers)(
      'after %i %s, the agent reports the segment, does not mark it as archived, and archives it later',
      async (status, code) => {
        failing(status, code)
        const { name } = finish()
        await reports({ state: 'failing', error: { message: expect.stringMatching(`${name}: .*(${code}|${status})`) } })
        expect(markers()).not.toContain(name)
        // The archive stays ready: if it were not, the agent's connections to its Service would be refused.
        expect(await isReady()).toBe(200)
        proxy.faultOf = () => undefined
        await archived(name)
        await reports({ state: 'archiving', error: null, waitingFiles: 0 })
      },
    )

    test('after a kill during an upload, the segment is not marked as archived until the next upload completes', async () => {
      proxy.faultOf = method => (method === 'PUT' ? { kind: 'silence' } : undefined)
      const before = proxy.met.silence
      const { name, content } = finish()
      await expect.poll(() => proxy.met.silence, polling).toBeGreaterThan(before)
      await kill()
      await reports({ state: 'failing', waitingFiles: 1 })
      expect(markers()).not.toContain(name)
      proxy.faultOf = () => undefined
      // As during a key replacement, the file lists the new key first.
      launch('both-keys')
      await started()
      await archived(name)
      await reports({ state: 'archiving', waitingFiles: 0 })
      const reader = openArchiveReader(
        { archive: `https://127.0.0.1:${port}`, id: incarnation.databaseId, incarnation: 1 },
        { tls: directory },
      )
      onTestFinished(() => reader.close())
      expect((await reader.read(`wal/${name}`))?.equals(content)).toBe(true)
    })

    test('a file that cannot be archived is reported while others are archived', async () => {
      const stuck = finish()
      failing(403, 'AccessDenied', at => at.includes(stuck.name))
      await reports({ state: 'failing' })
      await archived(finish().name)
      // The agent writes the marker of a file before it updates the count.
      await reports({ state: 'failing', waitingFiles: 1 })
      expect(state.status().error?.message).toContain(stuck.name)
      proxy.faultOf = () => undefined
      await archived(stuck.name)
      await reports({ state: 'archiving' })
    })

    let segmentOfOtherKey: string
    test('at its start, the archive waits for the store, and is not ready until the store responds', async () => {
      segmentOfOtherKey = finish().name
      await archived(segmentOfOtherKey)
      await kill()
      proxy.faultOf = () => ({ kind: 'reset' })
      launch()
      await expect.poll(() => output, polling).toContain('the store cannot be opened; retrying')
      expect(await isReady()).toBe(503)
      const { name } = finish()
      proxy.faultOf = () => undefined
      await started()
      expect(await isReady()).toBe(200)
      await archived(name)
    })

    test('the error of a restore names the key that is not configured, and no object is overwritten', async () => {
      // Since its last start, the archive has only the old key.
      const name = segmentOfOtherKey
      const reader = openArchiveReader(
        { archive: `https://127.0.0.1:${port}`, id: incarnation.databaseId, incarnation: 1 },
        { tls: directory },
      )
      onTestFinished(() => reader.close())
      const refused = reader.read(`wal/${name}`)
      await expect(refused).rejects.toThrow(/encrypted with the key [0-9a-f]{16}, which is not configured/)
      // Postgres archives the segment again with other content, which must not overwrite the unreadable object.
      rmSync(path('markers', name))
      file(`data/pg_wal/${name}`, randomBytes(1000))
      await reports({ state: 'failing', error: { message: expect.stringContaining('which is not configured') } })
      expect(markers()).not.toContain(name)
    })
  })
