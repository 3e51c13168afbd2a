/**
 * `espalier instance prepare` creates a volume from an archive. The test uses real Postgres servers, and an archive in
 * memory.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { operatorCommonName, renderConfiguration } from '../../operator/postgres/configuration.ts'
import { instanceFolder, nodeBinary } from '../../operator/postgres/testing/install.ts'
import {
  giveToPostgres,
  instanceId,
  makeMounts,
  postgresEnvironment,
  prepareCommand,
  type RunningPostgres,
  runPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../operator/postgres/testing/postgres.ts'
import { smallShape } from '../../operator/testing/samples.ts'
import { isSegment, segmentName } from '../archive/wal.ts'
import { baseBackup, type WalPosition } from '../replication/base-backup.ts'
import { ReplicationConnection } from '../replication/connection.ts'
import { secureSocket } from '../replication/secure-socket.ts'
import { entriesOf } from '../restore/tar.ts'
import { archiveTlsVariable, bytesOfLsn, type RecoverySource, type RecoveryTarget } from './source.ts'
import { type FakeArchive, startFakeArchive } from './testing/archive.ts'
import { nextSegment, startOfSegment } from './wal.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
/** The number of moments. With a smaller number, a run takes minutes. */
const moments = Number(process.env.ESPALIER_SOAK_MOMENTS ?? 200)
const major = '18'
const backup = '0190bbbb-0000-7000-8000-000000000001'
const targetId = '0190cccc-0000-4000-8000-000000000002'
const accounts = 20

let directory: string
let source: RunningPostgres
let archive: FakeArchive
let superuser: pg.Client
/** The end of the archive's WAL. */
let through: string
/** Each event, with the time of its commit and a WAL position after it. */
const events: { number: number; lsn: string; at: string }[] = []

const connect = async (server: Pick<RunningPostgres, 'port'>): Promise<pg.Client> => {
  const { host, serverName: servername, ca } = source.target
  const certificate = issueClientCertificate(source.authority, { commonName: operatorCommonName })
  const client = new pg.Client({
    ...{ host, port: server.port, user: 'postgres', database: 'postgres' },
    ssl: { ca, servername, ...certificate },
  })
  await client.connect()
  return client
}

beforeAll(async () => {
  directory = temporaryDirectory('recovery')
  const wal = join(directory, 'wal')
  mkdirSync(wal)
  giveToPostgres(wal)
  const settings = { archive_command: `cp %p ${wal}/%f`, track_commit_timestamp: 'on' }
  source = await startPostgres({ major, settings })
  const { authority } = source
  const server = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  archive = await startFakeArchive(`${instanceId}/1`, { ...server, ca: authority.cert })
  const client = issueClientCertificate(authority, { commonName: 'espalier-archive' })
  for (const [name, text] of Object.entries({
    'archive.crt': client.cert,
    'archive.key': client.key,
    'ca.crt': authority.cert,
  })) {
    writeFileSync(join(directory, name), text, { mode: 0o600 })
    giveToPostgres(join(directory, name))
  }
  superuser = await connect(source)
  await superuser.query('CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)')
  await superuser.query(`INSERT INTO account SELECT id, 100 FROM generate_series(1, ${accounts}) AS id`)
  await superuser.query('CREATE TABLE event (number int PRIMARY KEY)')
  await takeBackup()
  await work(isSoak ? 2000 : 60)
  await archiveAll(wal)
}, 120_000)
afterAll(async () => {
  await superuser?.end()
  await source?.stop()
  archive?.close()
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
})

async function takeBackup(): Promise<void> {
  const { host, port, serverName, ca } = source.target
  // The control plane creates the role that archives. The superuser has the permission as well.
  const certificate = issueClientCertificate(source.authority, { commonName: 'espalier-replication' })
  await superuser.query('CREATE ROLE espalier_replication REPLICATION LOGIN')
  const socket = await secureSocket({ host, port, serverName, ca, ...certificate })
  const connection = await ReplicationConnection.open(socket, 'espalier_replication', 'test')
  await archive.addBackup(backup, baseBackup(connection, { label: 'test' }))
  socket.destroy()
}

/** Several clients make transfers. Another client adds events and records each of them. */
async function work(count: number): Promise<void> {
  const [transfers, noted] = [await connect(source), await connect(source)]
  let isOver = false
  const transferring = (async () => {
    for (let round = 0; !isOver; round++) {
      const [from, to] = [1 + (round % accounts), 1 + ((round * 7 + 3) % accounts)]
      await transfers.query(
        `BEGIN; UPDATE account SET balance = balance - 1 WHERE id = ${from}; UPDATE account SET balance = balance + 1 WHERE id = ${to}; COMMIT`,
      )
    }
  })()
  for (let number = 1; number <= count; number++) {
    await noted.query('INSERT INTO event VALUES ($1)', [number])
    const { rows } = await noted.query('SELECT pg_current_wal_insert_lsn()::text AS lsn')
    events.push({ number, lsn: rows[0].lsn, at: '' })
    if (number === Math.floor(count / 2)) await noted.query("SELECT pg_create_restore_point('halfway')")
    // With one segment per 15 events, the replay alone takes hours for 200 moments.
    if (number % (isSoak ? 150 : 15) === 0) await noted.query('SELECT pg_switch_wal()')
  }
  isOver = true
  await transferring
  const { rows } = await noted.query(
    `SELECT number, to_char(pg_xact_commit_timestamp(xmin) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at FROM event`,
  )
  for (const { number, at } of rows) (events[number - 1] ?? { at: '' }).at = at
  await transfers.end()
  await noted.end()
}

/** Archives complete segments, and the written part of the current segment. */
async function archiveAll(wal: string): Promise<void> {
  const { rows } = await superuser.query(
    "SELECT pg_walfile_name(pg_current_wal_flush_lsn()) AS file, pg_current_wal_flush_lsn()::text AS lsn, (pg_current_wal_flush_lsn() - '0/0')::text AS flushed",
  )
  const [{ file, lsn, flushed }] = rows
  through = lsn
  const lastComplete = () =>
    readdirSync(wal)
      .filter(name => name < file && /^[0-9A-F]{24}$/.test(name))
      .sort()
      .at(-1) ?? ''
  await vi.waitFor(() => expect(nextSegment(lastComplete().padEnd(24, '0'))).toBe(file), { timeout: 20_000 })
  archive.addWal(wal)
  archive.objects.delete(`wal/${file}`)
  const length = Number(BigInt(flushed) - startOfSegment(file))
  archive.objects.set(
    `tail/${file}`,
    readFileSync(join(source.mounts.volume, 'pgdata/pg_wal', file)).subarray(0, length),
  )
}

/** A volume that will be recovered to a target. */
function volumeFor(target: RecoveryTarget, more: Partial<RecoverySource> = {}) {
  const recover = { archive: archive.url, id: instanceId, incarnation: 1, backup, target, ...more }
  const certificate = issueServerCertificate(source.authority, {
    dnsNames: ['db.test.svc'],
    ipAddresses: ['127.0.0.1'],
  })
  const mounts = makeMounts(
    {
      ...{ databaseId: targetId, incarnation: 2, pgVersion: major, initialise: false, recover },
      files: renderConfiguration(smallShape, major, targetId),
    },
    source.authority,
    certificate,
  )
  onTestFinished(() => rmSync(mounts.root, { recursive: true, force: true }))
  return mounts
}
type Mounts = ReturnType<typeof volumeFor>

function startPrepare(mounts: Mounts) {
  const [command, ...args] = prepareCommand(mounts)
  const { env, ...options } = postgresEnvironment(major)
  const child = spawn(command, args, {
    ...options,
    env: { ...env, [archiveTlsVariable]: directory },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text
  })
  return { child, ended: once(child, 'close').then(([code]) => ({ code, stderr })) }
}
const prepare = (mounts: Mounts) => startPrepare(mounts).ended

/** Prepares the volume, starts Postgres on it, and reads its events. */
async function contentOf(mounts: Mounts) {
  expect(await prepare(mounts)).toEqual({ code: 0, stderr: '' })
  const server = await runPostgres(mounts, { major })
  try {
    const client = await connect(server)
    const { rows } = await client.query(
      "SELECT (SELECT sum(balance)::int FROM account) AS sum, (SELECT array_agg(number ORDER BY number) FROM event) AS numbers, current_setting('espalier.closed', true) AS closed, pg_is_in_recovery() AS recovers",
    )
    await client.end()
    return rows[0]
  } finally {
    await server.kill()
  }
}
const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)
const exactly = (last: number) => ({
  sum: accounts * 100,
  numbers: last === 0 ? null : upTo(last),
  closed: 'yes',
  recovers: false,
})

/** The event at this fraction of all events. */
function eventAt(part: number) {
  const event = events[Math.floor(events.length * part)]
  if (event === undefined) throw new Error('there are no events')
  return event
}

test('the WAL in a base backup is the archived WAL, to the end of its last segment', async () => {
  const { start, end, parts }: { start: WalPosition; end: WalPosition; parts: unknown[] } = JSON.parse(
    String(archive.objects.get(`backups/${backup}/record`)),
  )
  const data = parts.map((_, index) => archive.objects.get(`backups/${backup}/parts/${index + 1}`) as Buffer)
  const names: string[] = []
  for await (const entry of entriesOf(Readable.from(data))) {
    if (entry.kind !== 'file' || !isSegment(basename(entry.name))) continue
    const name = basename(entry.name)
    names.push(name)
    expect(archive.objects.get(`wal/${name}`)?.equals(await buffer(entry.content)), name).toBe(true)
  }
  // Recovery compares both segments: a difference would end it.
  const first = segmentName(start.timeline, bytesOfLsn(start.position), 16n << 20n)
  const last = segmentName(end.timeline, bytesOfLsn(end.position) - 1n, 16n << 20n)
  expect([names.at(0), names.at(-1)]).toEqual([first, last])
})

describe('a volume is recovered', { timeout: 240_000 }, () => {
  test('up to the last commit at or before a time, although it was killed and the archive restarted', async () => {
    let refused = 0
    archive.intercept = name =>
      name.startsWith('wal/') && refused++ < 3 ? { status: 503, body: '{"code":"busy","message":"m"}' } : undefined
    onTestFinished(() => {
      archive.intercept = undefined
    })
    const middle = eventAt(0.4)
    const mounts = volumeFor({ kind: 'time', time: middle.at })
    for (const ms of isSoak ? Array.from({ length: 40 }, (_, index) => 50 * index) : [700]) {
      const { child, ended } = startPrepare(mounts)
      setTimeout(() => child.kill('SIGKILL'), ms)
      await ended
    }
    expect(await contentOf(mounts)).toEqual(exactly(middle.number))
    expect(refused).toBeGreaterThan(3)
    const remaining = readdirSync(mounts.volume).filter(
      name => name.startsWith('pgdata.new-') || name.includes('recovery'),
    )
    expect(remaining).toEqual([])
  })

  test.runIf(isSoak)(
    'with the WAL of its base backup, although the archive has the WAL of another server',
    async () => {
      const record: { start: WalPosition } = JSON.parse(String(archive.objects.get(`backups/${backup}/record`)))
      const name = `wal/${segmentName(1, bytesOfLsn(record.start.position), 16n << 20n)}`
      const original = archive.objects.get(name) ?? Buffer.alloc(0)
      archive.objects.set(name, Buffer.concat([original.subarray(0, 40), Buffer.alloc(40, 1), original.subarray(80)]))
      onTestFinished(() => void archive.objects.set(name, original))
      const later = eventAt(0.3)
      archive.reads.length = 0
      expect(await contentOf(volumeFor({ kind: 'lsn', lsn: later.lsn }))).toEqual(exactly(later.number))
      expect(archive.reads).toContain(name)
    },
  )

  test('to the end of the archive, if nothing was committed after the requested time', async () => {
    const time = new Date(Date.now()).toISOString()
    expect(await contentOf(volumeFor({ kind: 'time', time }, { through }))).toEqual(exactly(events.length))
  })

  test.runIf(isSoak)('to a position, to a named restore point, and to the end of its backup', async () => {
    const later = eventAt(0.7)
    expect(await contentOf(volumeFor({ kind: 'lsn', lsn: later.lsn }))).toEqual(exactly(later.number))
    expect(await contentOf(volumeFor({ kind: 'name', name: 'halfway' }))).toEqual(exactly(events.length / 2))
    expect(await contentOf(volumeFor({ kind: 'backup' }))).toEqual(exactly(0))
  })

  // One minute for each moment, for a busy machine.
  test.runIf(isSoak)('to 200 moments', { timeout: moments * 60_000 }, async () => {
    const began = performance.now()
    for (let round = 0; round < moments; round++) {
      const event = eventAt(Math.random())
      const target: RecoveryTarget =
        round % 2 === 0 ? { kind: 'time', time: event.at } : { kind: 'lsn', lsn: event.lsn }
      const mounts = volumeFor(target)
      expect(await contentOf(mounts), JSON.stringify(target)).toEqual(exactly(event.number))
      rmSync(mounts.root, { recursive: true, force: true })
      if ((round + 1) % 10 === 0)
        console.log(
          `moments: ${round + 1} exact, ${((performance.now() - began) / 1000 / (round + 1)).toFixed(1)} s each`,
        )
    }
  })
})

describe('a copy is verified', { timeout: 240_000 }, () => {
  /** The report of `espalier instance verify` on a copy recovered to the end of the events. */
  async function verified(more: Partial<RecoverySource> = {}) {
    const volume = temporaryDirectory('verify-recovered')
    onTestFinished(() => rmSync(volume, { recursive: true, force: true }))
    giveToPostgres(volume)
    const target: RecoveryTarget = { kind: 'lsn', lsn: events.at(-1)?.lsn ?? '' }
    const recover = { archive: archive.url, id: instanceId, incarnation: 1, backup, target, ...more }
    const message = join(volume, 'message')
    const args = ['--data', volume, '--recover', JSON.stringify(recover), '--termination-message', message]
    const { env, ...options } = postgresEnvironment(major)
    const child = spawn(nodeBinary(), [join(instanceFolder(), 'main.ts'), 'instance', 'verify', ...args], {
      ...options,
      env: { ...env, [archiveTlsVariable]: directory },
      stdio: 'ignore',
    })
    const [code] = await once(child, 'close')
    return { code, result: JSON.parse(readFileSync(message, 'utf8')) }
  }

  test('after its data were created from the archive', async () => {
    const { code, result } = await verified()
    expect(code).toBe(0)
    expect(result).toMatchObject({ faults: 0, findings: [] })
    expect(result.version).toMatch(/^18/)
    expect(result.pages).toBeGreaterThan(500)
    expect(result.relations).toBeGreaterThan(100)
  })

  test('and reported as damaged if the archive lacks a part or WAL', async () => {
    const part = `backups/${backup}/parts/1`
    archive.intercept = name => (name === part ? { status: 404, body: '' } : undefined)
    onTestFinished(() => {
      archive.intercept = undefined
    })
    const lacking = await verified()
    expect(lacking).toMatchObject({ code: 0, result: { faults: 1, findings: [expect.stringContaining(part)] } })
    archive.intercept = name => (name.startsWith('wal/') ? { status: 404, body: '' } : undefined)
    const short = await verified()
    expect(short).toMatchObject({ code: 0, result: { faults: 1, findings: [expect.stringContaining('WAL ends')] } })
  })
})

describe('a recovery is refused, and the error names the damaged object', { timeout: 240_000 }, () => {
  const without = (name: string, replaced?: Buffer) => {
    const original = archive.objects.get(name)
    if (original === undefined) throw new Error(`there is no ${name}`)
    if (replaced === undefined) archive.objects.delete(name)
    else archive.objects.set(name, replaced)
    onTestFinished(() => void archive.objects.set(name, original))
  }
  const lastSegment = (): string =>
    [...archive.objects.keys()]
      .filter(name => name.startsWith('wal/'))
      .sort()
      .at(-1) ?? ''
  const atEnd = (): RecoveryTarget => ({ kind: 'lsn', lsn: events.at(-1)?.lsn ?? '' })
  test('if a part is missing', async () => {
    without(`backups/${backup}/parts/1`)
    const { code, stderr } = await prepare(volumeFor(atEnd()))
    expect({ code, stderr }).toEqual({
      code: 41,
      stderr: expect.stringContaining(`${instanceId}/1/backups/${backup}/parts/1`),
    })
  })

  test.runIf(isSoak)('if a part has other bytes', async () => {
    const name = `backups/${backup}/parts/1`
    const changed = Buffer.from(archive.objects.get(name) ?? '')
    changed[5000] = (changed[5000] ?? 0) ^ 1
    without(name, changed)
    const { code, stderr } = await prepare(volumeFor(atEnd()))
    expect({ code, stderr }).toEqual({ code: 41, stderr: expect.stringContaining(name) })
  })

  test.runIf(isSoak)('if a segment before the target is missing', async () => {
    const name = lastSegment()
    without(name)
    expect(await prepare(volumeFor(atEnd()))).toEqual({ code: 42, stderr: expect.stringContaining(name) })
  })

  test.runIf(isSoak)('if the archive cannot read a segment', async () => {
    const name = lastSegment()
    archive.intercept = read =>
      read === name ? { status: 500, body: JSON.stringify({ code: 'damaged', message: 'm' }) } : undefined
    onTestFinished(() => {
      archive.intercept = undefined
    })
    expect(await prepare(volumeFor(atEnd()))).toEqual({ code: 41, stderr: expect.stringContaining(name) })
  })

  test.runIf(isSoak)('if the archive may not cover the requested time', async () => {
    const time = new Date(Date.now() + 60_000).toISOString()
    const { code, stderr } = await prepare(volumeFor({ kind: 'time', time }))
    expect({ code, stderr }).toEqual({ code: 42, stderr: expect.stringContaining('WAL ends before the target') })
  })
})
