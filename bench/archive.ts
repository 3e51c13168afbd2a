/**
 * The archive on a directory, each figure against a baseline of the same run:
 * - a base backup, compressed, encrypted and read back, against `pg_basebackup` of the same server to the same disk;
 * - its restore, against a copy of the data directory;
 * - WAL through `espalier archive` by mutual TLS, four segments at a time, against a copy of the same files.
 * It needs a Postgres with all its programs, such as Debian's. ESPALIER_BENCH_SCALE is pgbench's scale (default: 30, some 450 MB).
 */
import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readManifest, readParts, readRecord } from '../archive/backup/read.ts'
import { writeBackup } from '../archive/backup/write.ts'
import { identityOf } from '../archive/names.ts'
import { archiveKey } from '../archive/object/key.ts'
import { openDirectoryStore } from '../archive/store/directory.ts'
import { baseBackup } from '../instance/replication/base-backup.ts'
import { ReplicationConnection } from '../instance/replication/connection.ts'
import { extractBackup } from '../instance/restore/extract.ts'
import { parseManifest } from '../instance/restore/manifest.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { freePort } from '../operator/postgres/testing/postgres.ts'
import { createIds } from '../values/id.ts'
import { against, median, print } from './statistics.ts'

const binaries = globSync('/usr/lib/postgresql/*/bin/pg_basebackup').map(dirname).toSorted().at(-1)
if (binaries === undefined) {
  console.log('skipped: there is no pg_basebackup on this machine')
  process.exit(0)
}
const scale = Number(process.env.ESPALIER_BENCH_SCALE ?? 30)
const rounds = 3
const segments = 100
const concurrent = 4
const MiB = 2 ** 20

const root = mkdtempSync(join(process.env.ESPALIER_BENCH_DIRECTORY ?? tmpdir(), 'espalier-bench-archive-'))
chmodSync(root, 0o777)
const isRoot = process.getuid?.() === 0
/** Postgres refuses to run as root. */
const run = (program: string, ...args: string[]): string => {
  const command = [join(binaries, program), ...args]
  const [first = '', ...rest] = isRoot ? ['runuser', '-u', 'nobody', '--', ...command] : command
  return execFileSync(first, rest, { encoding: 'utf8', cwd: '/', stdio: ['ignore', 'pipe', 'ignore'] })
}
const seconds = async (work: () => unknown): Promise<number> => {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

async function measureBackups(): Promise<void> {
  const [data, port] = [join(root, 'data'), await freePort()]
  run('initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync')
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_wal_size=4GB`
  run('pg_ctl', '-D', data, '-w', '-l', join(root, 'log'), '-o', options, 'start')
  const where = ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres']
  try {
    run('pgbench', '-i', '-q', '-s', String(scale), ...where, 'postgres')
    run('psql', '-q', ...where, '-c', 'CHECKPOINT', 'postgres')
    const archive = {
      store: await openDirectoryStore(join(root, 'store')),
      keys: { current: archiveKey(randomBytes(32)), previous: [] },
    }
    const incarnation = { databaseId: createIds(Date.now)(), number: 1 }
    const results: { ours: number; theirs: number; restore: number; copy: number; bytes: number; stored: number }[] = []
    for (let round = 0; round < rounds; round++) {
      const plain = join(root, `plain-${round}`)
      const theirs = await seconds(() =>
        run('pg_basebackup', ...where, '-c', 'fast', '-X', 'fetch', '-F', 't', '-D', plain),
      )
      const id = createIds(Date.now)()
      const socket = connect({ host: '127.0.0.1', port })
      const connection = await ReplicationConnection.open(socket, 'postgres', 'bench')
      let bytes = 0
      const ours = await seconds(async () => {
        const record = await writeBackup(archive, baseBackup(connection, { label: 'bench' }), {
          incarnation,
          id,
          now: Date.now,
        })
        bytes = record.bytes
      })
      connection.close()
      const target = join(root, `restored-${round}`)
      mkdirSync(target)
      const record = await readRecord(archive, incarnation, id)
      if (record === undefined) throw new Error('there is no backup')
      const restore = await seconds(async () => {
        const manifest = parseManifest(await readManifest(archive, incarnation, id, record))
        await extractBackup(readParts(archive, incarnation, id, record), manifest, target)
      })
      const copy = await seconds(() =>
        execFileSync('sh', ['-c', `cp -a --reflink=never ${target} ${target}-copy && sync -f ${target}-copy`]),
      )
      const stored = Number(
        execFileSync('du', ['-sb', join(root, 'store', incarnation.databaseId, '1', 'backups', id)], {
          encoding: 'utf8',
        }).split('\t')[0],
      )
      results.push({ ours, theirs, restore, copy, bytes, stored })
      for (const path of [plain, target, `${target}-copy`]) rmSync(path, { recursive: true, force: true })
    }
    const of = (pick: (one: (typeof results)[number]) => number) => median(results.map(pick))
    const megabytes = of(({ bytes }) => bytes) / 1e6
    print(
      'size of the backup, and in the store',
      `${megabytes.toFixed(0)} MB, ${(of(({ stored }) => stored) / 1e6).toFixed(0)} MB`,
    )
    print(
      'backup',
      `${(megabytes / of(({ ours }) => ours)).toFixed(0)} MB/s against ${(megabytes / of(({ theirs }) => theirs)).toFixed(0)}`,
    )
    print(
      'backup, of pg_basebackup',
      against(
        of(({ ours, theirs }) => theirs / ours),
        0.8,
        'at least',
      ),
    )
    print(
      'restore',
      `${(megabytes / of(({ restore }) => restore)).toFixed(0)} MB/s against ${(megabytes / of(({ copy }) => copy)).toFixed(0)}`,
    )
    print(
      'restore, of a copy',
      against(
        of(({ restore, copy }) => copy / restore),
        0.8,
        'at least',
      ),
    )
  } finally {
    run('pg_ctl', '-D', data, '-m', 'immediate', 'stop')
  }
}

/** As compressible as WAL of an ordinary load: half of it is the same again. */
function segmentFile(path: string): Buffer {
  const bytes = Buffer.alloc(16 * MiB)
  for (let at = 0; at < bytes.length; at += 8192) randomBytes(4096).copy(bytes, at)
  writeFileSync(path, bytes)
  return bytes
}

async function measureWal(): Promise<void> {
  const authority = createAuthority()
  const incarnation = { databaseId: createIds(Date.now)(), number: 1 }
  const server = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  const client = issueClientCertificate(authority, { commonName: 'bench', uris: [identityOf(incarnation)] })
  const file = (name: string, text: string): string => {
    writeFileSync(join(root, name), text)
    return join(root, name)
  }
  const port = await freePort()
  const child = spawn(
    process.execPath,
    [
      ...[
        'bin/espalier.mjs',
        'archive',
        '--store',
        `file://${join(root, 'wal-store')}`,
        '--listen',
        `127.0.0.1:${port}`,
      ],
      ...[
        '--key-file',
        file('keys', randomBytes(32).toString('base64')),
        '--client-authority',
        file('ca', authority.cert),
      ],
      ...['--certificate', file('crt', server.cert), '--key', file('key', server.key)],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  try {
    await once(child.stdout, 'data')
    const bytes = segmentFile(join(root, 'segment'))
    const digest = `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
    const agent = new Agent({ keepAlive: true, maxSockets: concurrent, ca: authority.cert, ...client })
    const put = async (number: number): Promise<void> => {
      const name = `0000000100000000${number.toString(16).toUpperCase().padStart(8, '0')}`
      const path = `/v1/${incarnation.databaseId}/1/wal/${name}`
      const headers = { 'content-digest': digest, 'content-length': bytes.length }
      const sending = request({ agent, host: '127.0.0.1', port, method: 'PUT', path, headers })
      sending.end(bytes)
      const [response] = await once(sending, 'response')
      response.resume()
      if (response.statusCode !== 201) throw new Error(`the archive answered ${response.statusCode}`)
      await once(response, 'end')
    }
    let next = 1
    const worker = async (): Promise<void> => {
      while (next <= segments) await put(next++)
    }
    const ours = await seconds(() => Promise.all(Array.from({ length: concurrent }, worker)))
    const copied = join(root, 'copied')
    mkdirSync(copied)
    const copy = await seconds(() => {
      for (let number = 0; number < segments; number++) cpSync(join(root, 'segment'), join(copied, String(number)))
      execFileSync('sync', ['-f', copied])
    })
    const megabytes = (segments * bytes.length) / 1e6
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]
    print('WAL', against(megabytes / ours, 100, 'at least', ' MB/s'))
    print('WAL, of a copy', `${(copy / ours).toFixed(2)}`)
    print('memory of the archive, highest', `${(Number(peak) / 1024).toFixed(0)} MiB`)
    agent.destroy()
  } finally {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
}

try {
  await measureBackups()
  await measureWal()
} finally {
  rmSync(root, { recursive: true, force: true })
}
