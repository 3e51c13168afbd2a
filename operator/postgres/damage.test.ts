/**
 * What a probe reports about a real Postgres with a damaged disk, or with a slow or broken network. Also the probe's
 * cost for Postgres.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { issueClientCertificate } from '../pki/index.ts'
import { createAdministrator, type PostgresObservation } from './administrator.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { connectAs, type RunningPostgres, runPostgres, startPostgres } from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal
const major = '18'

let server: RunningPostgres
beforeAll(async () => {
  server = await startPostgres({ major })
})
afterAll(() => server.stop())

const administrator = () =>
  createAdministrator({ authority: server.authority, now: Date.now, logger: pino({ level: 'silent' }) })

type Reached = Extract<PostgresObservation, { reachable: true }>
async function observe(commits: boolean): Promise<Reached> {
  const seen = await administrator().observe(server.target, { passwords, commits }, signal)
  if (!seen.reachable) throw new Error(`${seen.reason}: ${seen.message}`)
  return seen
}

const superuser = <Row extends object>(sql: string, database = 'app') => {
  const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
  return withConnection(server.target, database, certificate, signal, connection => connection.rows<Row>(sql))
}

describe('a probe', () => {
  test('writes WAL only if a commit is requested, which a pod with a WAL probe does not need', async () => {
    await administrator().ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'm' }), signal)
    await superuser('CHECKPOINT')
    const before = await vi.waitFor(async () => {
      const { walPosition } = await observe(false)
      // Postgres itself sometimes writes a record, at most every 15 s.
      expect((await observe(false)).walPosition).toBe(walPosition)
      return walPosition
    }, 30_000)
    expect((await observe(true)).wal).toBe('written')
    expect((await observe(false)).walPosition).not.toBe(before)
  })

  test("returns the certificate even if a user's password has changed", async () => {
    const client = await connectAs(server, 'app', passwords.app)
    await client.query("ALTER ROLE app PASSWORD 'my own'")
    await client.end()
    const seen = await observe(false)
    expect(seen.roles.app.password).toBe('changed')
    expect(seen.certificate).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/)
  })

  test('treats a verifier with very many rounds as a changed password, without computing them', async () => {
    const client = await connectAs(server, 'admin', passwords.admin)
    await client.query('SET scram_iterations = 2000000')
    await client.query("ALTER ROLE admin PASSWORD 'costly'")
    await client.end()
    const began = process.cpuUsage()
    expect((await observe(false)).roles.admin.password).toBe('changed')
    // Two million rounds take about a second on one core.
    const { user, system } = process.cpuUsage(began)
    expect(user + system).toBeLessThan(500_000)
  })

  test('reports a silent or slow machine as such, and not as unreachable', async () => {
    const stalled: Socket[] = []
    const proxy = createServer(socket => void stalled.push(socket))
    await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
    const address = proxy.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const observeServer = (target: object) =>
      administrator().observe({ ...server.target, ...target }, { passwords, commits: false }, signal)
    expect(await observeServer({ port })).toMatchObject({ reachable: false, reason: 'timeout' })
    // RFC 5737: an address without a machine.
    const unreachable = await observeServer({ host: '192.0.2.1' })
    expect(unreachable.reachable === false && ['silent', 'network']).toContain(
      unreachable.reachable ? '' : unreachable.reason,
    )
    for (const socket of stalled) socket.destroy()
    await new Promise(resolve => proxy.close(resolve))
  }, 30_000)
})

test('a page with a wrong checksum is detected, with count and database', async () => {
  expect((await observe(false)).checksumFailures).toBeNull()
  await superuser("CREATE TABLE public.damaged AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 100)")
  const [file] = await superuser<{ path: string }>("SELECT pg_relation_filepath('public.damaged') AS path")
  await server.kill('SIGINT')
  const relation = openSync(join(server.mounts.volume, 'pgdata', file?.path ?? ''), 'r+')
  writeSync(relation, 'damage', 4_000)
  closeSync(relation)
  const again = await runPostgres(server.mounts, { major })
  server = { ...server, ...again, target: { ...server.target, port: again.port }, stop: server.stop }
  await expect(superuser('SELECT count(*) FROM public.damaged')).rejects.toMatchObject({ code: 'XX001' })
  await expect.poll(async () => (await observe(false)).checksumFailures, { timeout: 10_000 }).not.toBeNull()
  const { checksumFailures } = await observe(false)
  expect(checksumFailures).toMatchObject({ databases: ['app'] })
  expect(checksumFailures?.count).toBeGreaterThanOrEqual(1)
  expect(Date.parse(checksumFailures?.lastAt ?? '')).toBeGreaterThan(Date.now() - 60_000)
  await again.kill()
})
