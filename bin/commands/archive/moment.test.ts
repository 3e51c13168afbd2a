/** Tests a base backup, WAL archiving and point-in-time recovery with the commands alone and a real Postgres. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg, { type Client } from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { identityOf } from '../../../archive/names.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../../operator/pki/index.ts'
import { createAdministrator } from '../../../operator/postgres/administrator.ts'
import { operatorCommonName, replicationCommonName } from '../../../operator/postgres/configuration.ts'
import {
  connectAs,
  freePort,
  type RunningPostgres,
  runPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../../operator/postgres/testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const incarnation = { databaseId: '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001', number: 1 }
const authority = createAuthority()

const isSoak = process.env.ESPALIER_SOAK === '1'

let directory: string
let server: RunningPostgres
let archive: ChildProcess
let app: Client
let superuser: Client
const path = (name: string): string => join(directory, name)
const file = (name: string, text: string): string => {
  writeFileSync(path(name), text, { mode: 0o644 })
  return path(name)
}
const command = [process.execPath, join(process.cwd(), 'bin/espalier.mjs'), 'archive']
const storeFlags = () => [
  '--store',
  `file://${path('store')}`,
  '--key-file',
  path('keys'),
  '--database',
  incarnation.databaseId,
]
const espalier = (...args: string[]): string => {
  const [program = '', ...first] = command
  return execFileSync(program, [...first, ...args], { encoding: 'utf8' })
}

beforeAll(async () => {
  directory = temporaryDirectory('archive')
  chmodSync(directory, 0o755)
  const issued = {
    server: issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }),
    client: issueClientCertificate(authority, { commonName: 'espalier-archive', uris: [identityOf(incarnation)] }),
    replication: issueClientCertificate(authority, { commonName: replicationCommonName }),
  }
  for (const [name, { cert, key }] of Object.entries(issued)) {
    file(`${name}.crt`, cert)
    file(`${name}.key`, key)
  }
  file('ca.crt', authority.cert)
  file('keys', `${Buffer.alloc(32, 7).toString('base64')}\n`)
  const port = await freePort()
  await startArchive(port)
  const push = file(
    'push',
    `set -e
digest=$(openssl dgst -sha256 -binary "$1" | base64)
curl -sS --fail --cacert ${path('ca.crt')} --cert ${path('client.crt')} --key ${path('client.key')} -T "$1" \\
  -H "content-digest: sha-256=:$digest:" https://127.0.0.1:${port}/v1/${incarnation.databaseId}/1/wal/$2`,
  )
  server = await startPostgres({ major: '18', tls: authority, settings: { archive_command: `sh ${push} %p %f` } })
  const administrator = createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) })
  const roles = async () => ({ passwords, passwordVersion: 'first' })
  await administrator.ensureRoles(server.target, roles, new AbortController().signal)
  app = await connectAs(server, 'app', passwords.app)
  const { host, port: postgresPort, ca, serverName: servername } = server.target
  const ssl = { ca, servername, ...issueClientCertificate(authority, { commonName: operatorCommonName }) }
  superuser = new pg.Client({ host, port: postgresPort, user: 'postgres', database: 'app', ssl })
  await superuser.connect()
})
afterAll(async () => {
  await app?.end()
  await superuser?.end()
  await server?.stop()
  archive?.kill('SIGKILL')
  rmSync(directory, { recursive: true, force: true })
})

async function startArchive(port: number): Promise<void> {
  const [program = '', ...first] = command
  const flags = ['--certificate', path('server.crt'), '--key', path('server.key'), '--client-authority', path('ca.crt')]
  const store = ['--store', `file://${path('store')}`, '--key-file', path('keys')]
  archive = spawn(program, [...first, ...store, ...flags, '--listen', `127.0.0.1:${port}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(archive.stdout ?? archive, 'data')
}

const switchWal = async (): Promise<void> => {
  const { rows } = await superuser.query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file')
  const wal = rows[0]?.file
  await expect
    .poll(
      async () =>
        (await superuser.query('SELECT last_archived_wal AS file FROM pg_stat_archiver')).rows[0].file >= (wal ?? ''),
      {
        timeout: 30_000,
      },
    )
    .toBe(true)
    .catch((error: unknown) => {
      throw new Error(server.log().slice(-3000), { cause: error })
    })
}

/** Restores, starts Postgres on the result, and returns the numbers in its table. */
async function numbersOf(...args: string[]): Promise<number[]> {
  const root = temporaryDirectory('archive-restored')
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const data = join(root, 'pgdata')
  espalier('restore', ...storeFlags(), '--target', data, ...args)
  // Postgres refuses to run as root, so the files get the owner of the source's volume.
  const { uid, gid } = statSync(server.mounts.volume)
  execFileSync('chown', ['-R', `${uid}:${gid}`, root, path('store')])
  // The source still archives, so its copy must not archive.
  const settings = { archive_command: 'false' }
  const restored = await runPostgres({ ...server.mounts, root, volume: root }, { major: '18', settings })
  onTestFinished(() => restored.kill())
  const client = await connectAs({ target: { ...server.target, port: restored.port } }, 'app', passwords.app)
  const { rows } = await client.query<{ number: number }>('SELECT number FROM event ORDER BY number')
  await client.end()
  return rows.map(({ number }) => number)
}
const restoreCommand = () => [...command, 'fetch', ...storeFlags(), '%f', '%p'].join(' ')
const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1)

test('a database is recovered to its backup, to the end of its WAL, and to any time between', {
  timeout: 240_000,
}, async () => {
  await app.query('CREATE TABLE event (number int PRIMARY KEY)')
  await app.query('INSERT INTO event VALUES (1)')
  const replication = [
    '--certificate',
    path('replication.crt'),
    '--key',
    path('replication.key'),
    '--authority',
    path('ca.crt'),
  ]
  const where = ['--host', server.target.serverName, '--address', '127.0.0.1', '--port', String(server.port)]
  const id = espalier('backup', ...storeFlags(), ...where, ...replication).trim()
  expect(espalier('list', ...storeFlags())).toContain(id)

  const times: string[] = []
  for (let number = 2; number <= 20; number++) {
    await app.query('INSERT INTO event VALUES ($1)', [number])
    await new Promise(resolve => setTimeout(resolve, 20))
    times[number] = (
      await app.query('SELECT to_char(clock_timestamp() AT TIME ZONE \'UTC\', \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\') AS at')
    ).rows[0].at
    await new Promise(resolve => setTimeout(resolve, 20))
    if (number % 10 === 0) await switchWal()
  }

  expect(await numbersOf()).toEqual([1])
  expect(await numbersOf('--restore-command', restoreCommand())).toEqual(upTo(20))
  for (const last of isSoak ? [3, 11, 17] : [11])
    expect(await numbersOf('--restore-command', restoreCommand(), '--target-time', times[last] ?? '')).toEqual(
      upTo(last),
    )
})

test.each([
  ['a target that is not empty', () => ['--target', directory], '--target must be empty'],
  [
    'a target time without --restore-command',
    () => ['--target', path('new'), '--target-time', '2026-01-31T12:00:00Z'],
    'require --restore-command',
  ],
  [
    'an invalid target time',
    () => ['--target', path('new'), '--target-time', 'noon'],
    '--target-time must be RFC 3339',
  ],
  [
    'a backup that does not exist',
    () => ['--target', path('new'), '--backup', incarnation.databaseId],
    'there is no complete backup',
  ],
])('restore refuses %s', (_, args, message) => {
  mkdirSync(path('store'), { recursive: true })
  const [program = '', ...first] = command
  const run = () =>
    execFileSync(program, [...first, 'restore', ...storeFlags(), ...args()], { encoding: 'utf8', stdio: 'pipe' })
  expect(run).toThrow(message)
})

test('fetch distinguishes a missing file from a failed archive', () => {
  const [program = '', ...first] = command
  const codeOf = (...args: string[]): unknown => {
    try {
      execFileSync(program, [...first, 'fetch', ...args, '000000090000000000000001', path('fetched')], {
        stdio: 'pipe',
      })
      return 0
    } catch (error) {
      return Object(error).status
    }
  }
  expect(codeOf(...storeFlags())).toBe(1)
  file('other-keys', `${Buffer.alloc(32, 8).toString('base64')}\n`)
  expect(codeOf(...storeFlags(), '--key-file', path('other-keys'))).toBe(200)
})
