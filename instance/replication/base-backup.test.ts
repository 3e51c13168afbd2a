/** Base backups of real servers under writes, extracted and started. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { issueClientCertificate } from '../../operator/pki/index.ts'
import { createAdministrator } from '../../operator/postgres/administrator.ts'
import { operatorCommonName, replicationCommonName, replicationRole } from '../../operator/postgres/configuration.ts'
import {
  connectAs,
  type RunningPostgres,
  runPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../operator/postgres/testing/postgres.ts'
import { PostgresError } from '../protocol/messages.ts'
import { extractBackup } from '../restore/extract.ts'
import { parseManifest } from '../restore/manifest.ts'
import { type BaseBackupEvent, baseBackup } from './base-backup.ts'
import { ReplicationConnection } from './connection.ts'
import { secureSocket } from './secure-socket.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }

async function replicate({ authority, target }: RunningPostgres): Promise<ReplicationConnection> {
  const { cert, key } = issueClientCertificate(authority, { commonName: replicationCommonName })
  const socket = await secureSocket({ ...target, cert, key })
  const connection = await ReplicationConnection.open(socket, replicationRole, 'espalier-backup')
  onTestFinished(() => connection.close())
  return connection
}

async function prepareRoles({ authority, target }: RunningPostgres): Promise<void> {
  const administrator = createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) })
  const roles = async () => ({ passwords, passwordVersion: 'first' })
  await administrator.ensureRoles(target, roles, new AbortController().signal)
}

type Taken = { archives: Map<string, Buffer>; manifest: Buffer; events: BaseBackupEvent[] }

async function take(connection: ReplicationConnection, label = 'a test'): Promise<Taken> {
  const archives = new Map<string, Buffer[]>()
  let current: Buffer[] = []
  const manifest: Buffer[] = []
  const events: BaseBackupEvent[] = []
  for await (const event of baseBackup(connection, { label })) {
    if (event.kind === 'data') {
      current.push(Buffer.from(event.bytes))
      continue
    }
    events.push(event)
    if (event.kind === 'manifest') current = manifest
    if (event.kind === 'archive') {
      current = []
      archives.set(event.name, current)
    }
  }
  const complete = [...archives].map(([name, chunks]) => [name, Buffer.concat(chunks)] as const)
  return { archives: new Map(complete), manifest: Buffer.concat(manifest), events }
}

async function* chunks(bytes: Buffer, size = 70_001) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
const newDirectory = (): string => {
  const directory = temporaryDirectory('base-backup')
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

describe.each(['16', '17', '18'] as const)('Postgres %s', major => {
  let server: RunningPostgres
  beforeAll(async () => {
    server = await startPostgres({ major })
    await prepareRoles(server)
    const app = await connectAs(server, 'app', passwords.app)
    await app.query('CREATE TABLE account (id int PRIMARY KEY, balance int, filler text)')
    await app.query("INSERT INTO account SELECT n, 100, repeat('x', 500) FROM generate_series(1, 5000) n")
    await app.end()
  })
  afterAll(() => server?.stop())

  test('a backup taken under writes starts, and has every commit before its end', async () => {
    const app = await connectAs(server, 'app', passwords.app)
    let isWriting = true
    let commits = 0
    const writing = (async () => {
      while (isWriting) {
        const [from, to] = [1, 2].map(() => 1 + Math.floor(Math.random() * 5000))
        await app.query(`BEGIN; UPDATE account SET balance = balance - 1 WHERE id = ${from};
          UPDATE account SET balance = balance + 1 WHERE id = ${to}; COMMIT`)
        commits++
      }
    })()
    const { archives, manifest, events } = await take(await replicate(server))
    isWriting = false
    await writing
    await app.end()
    expect(commits).toBeGreaterThan(0)
    expect([...archives.keys()]).toEqual(['base.tar'])
    expect(events[0]).toMatchObject({ kind: 'started', at: { timeline: 1 } })
    expect(events.at(-1)).toMatchObject({ kind: 'ended', at: { timeline: 1 } })
    const parsed = parseManifest(manifest)
    expect(parsed.wal).toHaveLength(1)

    const root = newDirectory()
    const mounts = { ...server.mounts, root, volume: root }
    const data = join(root, 'pgdata')
    mkdirSync(data, { mode: 0o700 })
    await extractBackup(chunks(archives.get('base.tar') ?? Buffer.alloc(0)), parsed, data)
    // Postgres refuses to run as root. The owner of the source's volume is the right user.
    const { uid, gid } = statSync(server.mounts.volume)
    execFileSync('chown', ['-R', `${uid}:${gid}`, root])
    const restored = await runPostgres(mounts, { major })
    onTestFinished(() => restored.kill())
    const client = await connectAs({ target: { ...server.target, port: restored.port } }, 'app', passwords.app)
    const { rows } = await client.query('SELECT count(*)::int, sum(balance)::int FROM account')
    await client.end()
    expect(rows).toEqual([{ count: 5000, sum: 500_000 }])
  })
})

// Uses 16, which has no summarizer. From 17 on, a checkpoint may retain WAL that the summarizer has not read yet, and
// the slot with it.
describe('a server that retains 32 MB of WAL for slots', () => {
  let server: RunningPostgres
  let superuser: Client
  beforeAll(async () => {
    server = await startPostgres({ major: '16', settings: { max_slot_wal_keep_size: '32MB', max_wal_size: '1GB' } })
    await prepareRoles(server)
    const { host, port, serverName: servername, ca } = server.target
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    const ssl = { ca, servername, ...certificate }
    superuser = new Client({ host, port, user: 'postgres', database: 'app', ssl })
    await superuser.connect()
  })
  afterAll(async () => {
    await superuser?.end()
    await server?.stop()
  })
  const write80MB = () =>
    superuser.query("SELECT pg_logical_emit_message(true, 'test', repeat('x', 1000000)) FROM generate_series(1, 80)")

  test('a backup completes although 80 MB were written since the last checkpoint', async () => {
    await write80MB()
    const { events } = await take(await replicate(server))
    expect(events.at(-1)).toMatchObject({ kind: 'ended' })
    expect(server.log()).not.toContain('to release replication slot')
  })

  test('a backup during which 80 MB are written fails and reports the reason', async () => {
    const failing = async () => {
      for await (const event of baseBackup(await replicate(server), { label: 'a test' })) {
        if (event.kind !== 'started') continue
        await write80MB()
        await superuser.query('CHECKPOINT')
      }
    }
    await expect(failing()).rejects.toThrow('more WAL than max_slot_wal_keep_size (32MB) was written')
    expect(server.log()).toContain('to release replication slot')
  })
})

describe('refusals and errors', () => {
  let server: RunningPostgres
  let taken: Taken
  beforeAll(async () => {
    server = await startPostgres({ major: '18' })
    await prepareRoles(server)
  })
  afterAll(() => server?.stop())

  test('a label with quotes is accepted, and the slot ends with the connection', async () => {
    const connection = await replicate(server)
    taken = await take(connection, "it's; a 'label'")
    connection.close()
    const base = taken.archives.get('base.tar')
    expect(base?.includes("LABEL: it's; a 'label'")).toBe(true)
    const next = await replicate(server)
    await expect.poll(async () => await next.query('READ_REPLICATION_SLOT none')).toEqual([[null, null, null]])
  })

  test('a statement that Postgres refuses throws its error, and the connection continues', async () => {
    const connection = await replicate(server)
    await expect(connection.query('NONSENSE')).rejects.toThrow(PostgresError)
  })

  test.each([
    [
      'a changed byte',
      (base: Buffer) => base.with(base.indexOf('PG_VERSION') + 512, 0x39),
      'differs from the manifest',
    ],
    ['a truncated archive', (base: Buffer) => base.subarray(0, base.length / 2), 'truncated'],
    ['a changed header', (base: Buffer) => base.with(0, 0x41), 'a header of the tar archive was changed'],
    ['bytes after the end', (base: Buffer) => Buffer.concat([base, Buffer.from('x')]), 'continues after its end'],
  ])('%s is refused', async (_, change, message) => {
    const base = taken.archives.get('base.tar') ?? Buffer.alloc(0)
    const changed = change(base)
    await expect(
      extractBackup(chunks(Buffer.from(changed)), parseManifest(taken.manifest), newDirectory()),
    ).rejects.toThrow(message)
  })

  test('a manifest that was changed or truncated is refused', () => {
    const { manifest } = taken
    expect(() => parseManifest(manifest.subarray(0, -200))).toThrow('truncated or was changed')
    expect(() => parseManifest(Buffer.from(manifest.with(300, 0x20)))).toThrow('truncated or was changed')
  })

  test('files that are missing in the manifest or in the archive are named', async () => {
    const base = taken.archives.get('base.tar') ?? Buffer.alloc(0)
    const manifest = parseManifest(taken.manifest)
    const [first] = manifest.files.keys()
    const fewer = new Map([...manifest.files].slice(1))
    const more = new Map([...manifest.files, ['base/lost', { path: 'base/lost', size: 1, sha256: '' }]])
    const extract = (files: typeof manifest.files) =>
      extractBackup(chunks(base), { ...manifest, files }, newDirectory())
    await expect(extract(fewer)).rejects.toThrow(`${first} is not in the manifest`)
    await expect(extract(more)).rejects.toThrow('the backup lacks base/lost')
  })
})
