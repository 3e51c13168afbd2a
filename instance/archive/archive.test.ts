/**
 * Tests the agent with a real Postgres and a real archive: segments, tails and base backups, with kills, restarts and
 * conflicts.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { createAdministrator } from '../../operator/postgres/administrator.ts'
import { operatorCommonName, replicationCommonName } from '../../operator/postgres/configuration.ts'
import {
  freePort,
  instanceId,
  type RunningPostgres,
  runPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../operator/postgres/testing/postgres.ts'
import { type Agent, startAgent } from '../agent/index.ts'
import { createArchiveClient } from './client.ts'
import type { ArchiveStatus, BackupJob } from './contract.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const backupId = '0190bbbb-0000-7000-8000-000000000001'
const authority = createAuthority()
const command = [process.execPath, join(process.cwd(), 'bin/espalier.mjs'), 'archive']

let directory: string
let archivePort: number
let server: RunningPostgres
let archive: ChildProcess
let agent: Agent
let superuser: pg.Client
const lines: string[] = []
const path = (name: string): string => join(directory, name)
const file = (name: string, text: string): void => writeFileSync(path(name), text, { mode: 0o644 })
const stored = (folder: string): string[] => {
  const found = path(`store/${instanceId}/1/${folder}`)
  return existsSync(found) ? readdirSync(found).filter(name => !name.startsWith('.')) : []
}

async function startArchive(): Promise<void> {
  const [program = '', ...first] = command
  const store = ['--store', `file://${path('store')}`, '--key-file', path('keys')]
  const flags = ['--certificate', path('server.crt'), '--key', path('server.key'), '--client-authority', path('ca.crt')]
  archive = spawn(program, [...first, ...store, ...flags, '--listen', `127.0.0.1:${archivePort}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(archive.stdout ?? archive, 'data')
  archive.stdout?.resume()
}

async function killArchive(): Promise<void> {
  const ended = once(archive, 'exit')
  archive.kill('SIGKILL')
  await ended
}

type AgentOptions = { markers?: string; port?: number; volume?: string }
const startOwnAgent = async (agentOptions: AgentOptions = {}): Promise<Agent> => {
  const { markers = 'markers', port = server.port, volume = server.mounts.volume } = agentOptions
  const started = await startAgent({
    ...{ id: instanceId, host: '127.0.0.1', port: 0, postgresPort: port, data: volume },
    ...{ tls: server.mounts.tls, state: path(`agent-${randomBytes(4).toString('hex')}`) },
    archive: { url: `https://127.0.0.1:${archivePort}`, tls: path('.'), markers: path(markers) },
    log: line => lines.push(line),
  })
  return started
}

type Answer = { status: number | undefined; body: string }
async function send(method: string, of: string, commonName = operatorCommonName, to = agent): Promise<Answer> {
  const certificate = issueClientCertificate(authority, { commonName })
  const options = { host: '127.0.0.1', port: to.port, path: of, method, agent: false, ca: authority.cert }
  const sent = request({ ...options, servername: 'db.test.svc', ...certificate })
  sent.end()
  const [response] = await once(sent, 'response')
  let body = ''
  for await (const chunk of response) body += chunk
  return { status: response.statusCode, body }
}
const status = async (to = agent): Promise<ArchiveStatus> =>
  JSON.parse((await send('GET', '/archive', undefined, to)).body)
const connect = async (port: number): Promise<pg.Client> => {
  const ssl = { ca: authority.cert, servername: server.target.serverName }
  const certificate = issueClientCertificate(authority, { commonName: operatorCommonName })
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: 'postgres',
    database: 'app',
    ssl: { ...ssl, ...certificate },
  })
  client.on('error', () => {})
  await client.connect()
  return client
}
const lsn = async (): Promise<string> => (await superuser.query('SELECT pg_current_wal_flush_lsn() AS at')).rows[0].at
const number = (at: string | null): bigint => {
  const [high = '0', low = '0'] = (at ?? '').split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}
const untilArchived = async (at: string) =>
  expect.poll(async () => number((await status()).archived) >= number(at), { timeout: 30_000 }).toBe(true)

beforeAll(async () => {
  directory = temporaryDirectory('archiving')
  chmodSync(directory, 0o755)
  mkdirSync(path('markers'), { mode: 0o755 })
  archivePort = await freePort()
  const identity = `urn:espalier:archive:${instanceId}:1`
  const client = issueClientCertificate(authority, { commonName: replicationCommonName, uris: [identity] })
  const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  file('archive.crt', client.cert)
  file('archive.key', client.key)
  file('server.crt', own.cert)
  file('server.key', own.key)
  file('ca.crt', authority.cert)
  file('keys', `${Buffer.alloc(32, 7).toString('base64')}\n`)
  await startArchive()
  const wait = `n=0; until test -e "${path('markers')}/%f"; do n=$((n+1)); test $n -le 50 || exit 1; sleep 0.1; done`
  server = await startPostgres({ major: '18', tls: authority, settings: { archive_command: wait } })
  const administrator = createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) })
  await administrator.ensureRoles(
    server.target,
    async () => ({ passwords, passwordVersion: 'first' }),
    new AbortController().signal,
  )
  superuser = await connect(server.port)
  await superuser.query(
    'CREATE TABLE event (number bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp(), filler text)',
  )
  await superuser.query('ALTER TABLE event ALTER COLUMN filler SET STORAGE EXTERNAL')
  agent = await startOwnAgent()
}, 120_000)
afterAll(async () => {
  await agent?.stop()
  await superuser?.end()
  await server?.stop()
  archive?.kill('SIGKILL')
  rmSync(directory, { recursive: true, force: true })
})

/** @returns the number of the last event */
const insert = async (rows: number, bytes: number): Promise<number> =>
  (
    await superuser.query(
      `WITH inserted AS (INSERT INTO event (filler) SELECT repeat(md5(n::text || random()), ${Math.ceil(bytes / 32)})
       FROM generate_series(1, ${rows}) AS n RETURNING number) SELECT max(number)::int AS last FROM inserted`,
    )
  ).rows[0].last

/** Restores the database from the archive to the end of WAL, and returns its events. */
async function restored(): Promise<number[]> {
  const root = temporaryDirectory('archiving-restored')
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const data = join(root, 'pgdata')
  const flags = ['--store', `file://${path('store')}`, '--key-file', path('keys'), '--database', instanceId]
  const [program = '', ...first] = command
  const fetch = [...command, 'fetch', ...flags, '%f', '%p'].join(' ')
  execFileSync(program, [...first, 'restore', ...flags, '--target', data, '--restore-command', fetch])
  const { uid, gid } = statSync(server.mounts.volume)
  execFileSync('chown', ['-R', `${uid}:${gid}`, root, path('store')])
  const running = await runPostgres(
    { ...server.mounts, root, volume: root },
    { major: '18', settings: { archive_command: 'false' } },
  )
  onTestFinished(() => running.kill())
  const client = await connect(running.port)
  const { rows } = await client.query<{ number: number }>('SELECT number::int FROM event ORDER BY number')
  await client.end()
  return rows.map(row => row.number)
}

describe('the agent', () => {
  test('archives writes within a second, and every finished segment', async () => {
    await expect.poll(async () => (await status()).timeline, { timeout: 60_000 }).toBe(1)
    await insert(10, 100)
    const at = await lsn()
    const began = performance.now()
    await untilArchived(at)
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(stored('tail').length).toBeGreaterThan(0)
    const { rows } = await superuser.query('SELECT pg_walfile_name(pg_switch_wal()) AS file')
    await expect.poll(() => stored('wal'), { timeout: 20_000 }).toContain(rows[0].file)
    await expect
      .poll(
        async () => (await superuser.query('SELECT last_archived_wal AS file FROM pg_stat_archiver')).rows[0].file,
        { timeout: 20_000 },
      )
      .toBe(rows[0].file)
    expect(await status()).toMatchObject({ state: 'archiving', error: null, lastFile: rows[0].file, timeline: 1 })
  })

  test('takes a base backup as a job, once, and reports it again after a restart', async () => {
    expect((await send('GET', `/backups/${backupId}`)).status).toBe(404)
    expect((await send('PUT', `/backups/${backupId}`, 'espalier-api')).status).toBe(403)
    expect((await send('PUT', '/backups/x')).status).toBe(404)
    expect((await send('PUT', `/backups/${backupId}`)).status).toBe(202)
    expect([200, 409]).toContain((await send('PUT', `/backups/${backupId}`)).status)
    expect((await send('PUT', `/backups/${backupId.replace('0001', '0002')}`)).status).toBe(409)
    const job = async (): Promise<BackupJob> => JSON.parse((await send('GET', `/backups/${backupId}`)).body)
    await expect.poll(async () => (await job()).state, { timeout: 60_000 }).toBe('completed')
    const completed = await job()
    await agent.stop()
    agent = await startOwnAgent()
    expect((await send('GET', `/backups/${backupId}`)).status).toBe(404)
    expect((await send('PUT', `/backups/${backupId}`)).status).toBe(200)
    expect(await job()).toEqual(completed)
    expect((await send('DELETE', `/backups/${backupId}`)).status).toBe(204)
  })

  test('writes no marker while the archive is unreachable, and loses nothing', async () => {
    await killArchive()
    const last = await insert(3000, 8000)
    const at = await lsn()
    expect(last).toBeGreaterThan(3000)
    await expect.poll(async () => (await status()).state, { timeout: 20_000 }).toBe('failing')
    await expect.poll(async () => (await status()).waitingFiles).toBeGreaterThan(0)
    const markerNames = readdirSync(path('markers'))
    expect(markerNames.filter(name => !stored('wal').includes(name))).toEqual([])
    await startArchive()
    await untilArchived(at)
    await expect.poll(async () => (await status()).waitingFiles, { timeout: 30_000 }).toBe(0)
    expect(await status()).toMatchObject({ state: 'archiving', error: null })
    expect(readdirSync(path('markers')).filter(name => !stored('wal').includes(name))).toEqual([])
  })

  test('has archived every commit older than a second when Postgres and its data are lost', {
    timeout: 120_000,
  }, async () => {
    const commits: { number: number; at: number }[] = []
    const ends = Date.now() + (isSoak ? 20_000 : 4_000)
    while (Date.now() < ends) commits.push({ number: await insert(1, 2000), at: Date.now() })
    const lostAt = Date.now()
    await agent.stop()
    await server.kill()
    const found = new Set(await restored())
    const lost = commits.filter(commit => !found.has(commit.number))
    const oldest = lost[0] === undefined ? 0 : lostAt - lost[0].at
    console.log(`RPO: ${lost.length} of ${commits.length} commits, the oldest ${oldest} ms before the loss`)
    expect(oldest).toBeLessThan(isSoak ? 1_000 : 2_000)
  })

  test("of two servers that archive one segment, the second is refused; the first server's segment stays", async () => {
    // Simulates a volume that was cloned or reset without Postgres's knowledge.
    const copy = temporaryDirectory('archiving-cloned')
    onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
    execFileSync('cp', ['-a', `${server.mounts.volume}/.`, copy])
    execFileSync('chown', ['--reference', server.mounts.volume, copy])
    mkdirSync(path('second-markers'))
    const servers = [server.mounts, { ...server.mounts, root: copy, volume: copy }].map(async (mounts, index) => {
      const running = await runPostgres(mounts, { major: '18', settings: { archive_command: 'false' } })
      onTestFinished(() => running.kill())
      const client = await connect(running.port)
      onTestFinished(() => client.end().catch(() => {}))
      return { running, client, mounts, markers: index === 0 ? 'markers' : 'second-markers' }
    })
    const [first, second] = await Promise.all(servers)
    if (first === undefined || second === undefined) throw new Error('one of the two is missing')
    const archiveOf = async ({ running, mounts, markers }: typeof first) => {
      const started = await startOwnAgent({ markers, port: running.port, volume: mounts.volume })
      onTestFinished(() => started.stop())
      return started
    }
    const finish = async ({ client }: typeof first, what: string): Promise<string> => {
      await client.query(`INSERT INTO event (filler) VALUES ('${what}')`)
      return (await client.query('SELECT pg_walfile_name(pg_switch_wal()) AS file')).rows[0].file
    }
    const ofFirst = await archiveOf(first)
    const file = await finish(first, 'of the first')
    await expect.poll(() => readdirSync(path('markers')), { timeout: 20_000 }).toContain(file)

    const ofSecond = await archiveOf(second)
    // The conflict is detected before the second server writes, because the first server's copy of that segment is
    // already complete in the archive.
    await expect.poll(async () => (await status(ofSecond)).state, { timeout: 30_000 }).toBe('conflict')
    expect((await status(ofSecond)).error?.message).toContain(file)
    expect(await finish(second, 'of the second')).toBe(file)
    await expect
      .poll(() => lines.find(line => line.startsWith('archiving: segments: conflict')), { timeout: 20_000 })
      .toMatch(new RegExp(`${file}: the archive has other content under this name`))
    expect(readdirSync(path('second-markers'))).toEqual([])
    expect(await status(ofFirst)).toMatchObject({ state: 'archiving', error: null })
    const client = createArchiveClient(`https://127.0.0.1:${archivePort}`, path('.'), Date.now)
    onTestFinished(() => client.close())
    const { body } = await client.send('GET', `wal/${file}`, { signal: AbortSignal.timeout(30_000) })
    expect(body.equals(readFileSync(join(first.mounts.volume, 'pgdata/pg_wal', file)))).toBe(true)
  }, 120_000)
})
