/**
 * Measures base backups in an archive whose store is a directory. Each figure has a baseline in the same run:
 * - a base backup that is compressed, encrypted and read back, against `pg_basebackup` of the same server to the same
 *   disk;
 * - the restore of the backup, against a copy of the data directory;
 * - both again as in production, with an agent, an archive and `espalier instance prepare` over mutual TLS.
 *
 * The benchmark needs a Postgres with all its programs, such as Debian's. ESPALIER_BENCH_SCALE is pgbench's scale
 * (default: 30, about 450 MB).
 */
import { type ChildProcess, execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { readManifest, readParts, readRecord } from '../archive/backup/read.ts'
import { writeBackup } from '../archive/backup/write.ts'
import type { Incarnation } from '../archive/names.ts'
import { archiveKey } from '../archive/object/key.ts'
import type { Archive } from '../archive/put.ts'
import { openDirectoryStore } from '../archive/store/directory.ts'
import { baseBackup } from '../instance/replication/base-backup.ts'
import { ReplicationConnection } from '../instance/replication/connection.ts'
import { extractBackup } from '../instance/restore/extract.ts'
import { parseManifest } from '../instance/restore/manifest.ts'
import { freePort } from '../operator/postgres/testing/postgres.ts'
import { createIds } from '../values/id.ts'
import { startArchive } from './archive-server.ts'
import { against, median, print } from './statistics.ts'

const binaries = globSync('/usr/lib/postgresql/*/bin/pg_basebackup').map(dirname).toSorted().at(-1)
if (binaries === undefined) {
  console.log('skipped: there is no pg_basebackup on this machine')
  process.exit(0)
}
const scale = Number(process.env.ESPALIER_BENCH_SCALE ?? 30)
const rounds = Number(process.env.ESPALIER_BENCH_ROUNDS ?? 3)

const root = mkdtempSync(join(process.env.ESPALIER_BENCH_DIRECTORY ?? tmpdir(), 'espalier-bench-archive-'))
chmodSync(root, 0o777)
const isRoot = process.getuid?.() === 0
/** Runs a program of Postgres. As root, runs it as the user `nobody`, because Postgres refuses to run as root. */
const run = (program: string, ...args: string[]): string => {
  const command = [join(binaries, program), ...args]
  const [first = '', ...rest] = isRoot ? ['runuser', '-u', 'nobody', '--', ...command] : command
  return execFileSync(first, rest, { encoding: 'utf8', cwd: '/', stdio: ['ignore', 'pipe', 'ignore'] })
}
/** `processor` is the processor time of all threads in seconds. It hardly depends on the load of the machine. */
type Cost = { seconds: number; processor: number }
async function cost(work: () => unknown, archive?: ChildProcess): Promise<Cost> {
  const [began, own, other] = [performance.now(), process.cpuUsage(), processorMs(archive)]
  await work()
  const { user, system } = process.cpuUsage(own)
  const processor = (user + system) / 1e6 + (processorMs(archive) - other) / 1000
  return { seconds: (performance.now() - began) / 1000, processor }
}

/** Returns the processor time in ms. The kernel counts hundredths of a second. */
function processorMs(child: ChildProcess | undefined): number {
  if (child === undefined) return 0
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Measures a shell command. The second line of `times` has the processor time of the shell's children. */
function costOf(command: string): Cost {
  const began = performance.now()
  const times = execFileSync('sh', ['-c', `{ ${command}; } >/dev/null 2>&1; times`], { encoding: 'utf8', cwd: '/' })
  const processor = [...(times.split('\n')[1] ?? '').matchAll(/([0-9]+)m([0-9.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + 60 * Number(minutes) + Number(seconds),
    0,
  )
  return { seconds: (performance.now() - began) / 1000, processor }
}

type Measured = { bytes: number; backup: Cost; restore: Cost }
type Result = { theirs: Cost; copy: Cost; straight: Measured; through: Measured }
type Connect = () => Promise<ReplicationConnection>

/** Backs up and restores in this process, as `espalier archive backup` and `espalier archive restore` do. */
async function measureStraight(
  archive: Archive,
  incarnation: Incarnation,
  open: Connect,
  target: string,
): Promise<Measured> {
  const id = createIds(Date.now)()
  const connection = await open()
  const backup = await cost(() =>
    writeBackup(archive, baseBackup(connection, { label: 'bench' }), { incarnation, id, now: Date.now }),
  )
  connection.close()
  mkdirSync(target)
  const record = await readRecord(archive, incarnation, id)
  if (record === undefined) throw new Error('there is no backup')
  const restore = await cost(async () => {
    const manifest = parseManifest(await readManifest(archive, incarnation, id, record))
    await extractBackup(readParts(archive, incarnation, id, record), manifest, target)
  })
  return { bytes: record.bytes, backup, restore }
}

/** Backs up and restores in separate processes, as the containers of a member do. */
async function measureServed(
  { url, tls, process: archive }: { url: string; tls: string; process: ChildProcess },
  options: { databaseId: string; port: number; target: string },
): Promise<Measured> {
  const id = createIds(Date.now)()
  const member = fileURLToPath(new URL('archive-member.ts', import.meta.url))
  const run = promisify(execFile)
  const done = async (work: 'backup' | 'restore'): Promise<Cost & { bytes: number; memory: number }> => {
    const before = processorMs(archive)
    const flags = work === 'backup' ? ['--max-semi-space-size=1'] : []
    const { stdout } = await run(process.execPath, [
      ...flags,
      member,
      JSON.stringify({ work, url, tls, id, ...options }),
    ])
    const cost = JSON.parse(stdout)
    return { ...cost, processor: cost.processor + (processorMs(archive) - before) / 1000 }
  }
  const backup = await done('backup')
  return { bytes: backup.bytes, backup, restore: await done('restore') }
}

function report(results: readonly Result[]): void {
  const of = (pick: (one: Result) => number) => median(results.map(pick))
  const megabytes = of(({ straight }) => straight.bytes) / 1e6
  const rate = (pick: (one: Result) => Cost) => (megabytes / of(one => pick(one).seconds)).toFixed(0)
  const ms = (pick: (one: Result) => Cost) => ((1000 * of(one => pick(one).processor)) / megabytes).toFixed(1)
  print('size of the backup', `${megabytes.toFixed(0)} MB`)
  const compare = (name: string, ours: (one: Result) => Cost, theirs: (one: Result) => Cost) => {
    print(name, `${rate(ours)} MB/s against ${rate(theirs)}`)
    print(
      '  rate relative to the baseline',
      against(
        of(one => theirs(one).seconds / ours(one).seconds),
        0.8,
        'at least',
      ),
    )
    print('  processor time', `${ms(ours)} ms for each MB, against ${ms(theirs)}`)
  }
  for (const [name, way] of [
    ['straight to the store', 'straight'],
    ['agent and archive', 'through'],
  ] as const) {
    compare(
      `backup, ${name}, and pg_basebackup`,
      one => one[way].backup,
      ({ theirs }) => theirs,
    )
    compare(
      `restore, ${name}, and a copy`,
      one => one[way].restore,
      ({ copy }) => copy,
    )
  }
  print('load average of the machine', (loadavg()[0] ?? 0).toFixed(1))
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
    const served = await startArchive(root, join(root, 'served'), incarnation.databaseId)
    const connection = async () => ReplicationConnection.open(connect({ host: '127.0.0.1', port }), 'postgres', 'bench')
    const results: Result[] = []
    try {
      for (let round = 0; round < rounds; round++) {
        const plain = join(root, `plain-${round}`)
        const theirs = costOf(
          `${isRoot ? 'runuser -u nobody -- ' : ''}${binaries}/pg_basebackup ${where.join(' ')} -c fast -X fetch -F t -D ${plain}`,
        )
        rmSync(plain, { recursive: true })
        const target = join(root, `restored-${round}`)
        const straight = await measureStraight(archive, incarnation, connection, target)
        const copy = costOf(`cp -a --reflink=never ${target} ${target}-copy && sync -f ${target}-copy`)
        for (const path of [target, `${target}-copy`]) rmSync(path, { recursive: true })
        const through = await measureServed(served, { databaseId: incarnation.databaseId, port, target })
        rmSync(target, { recursive: true })
        results.push({ theirs, copy, straight, through })
      }
    } finally {
      await served.stop()
    }
    report(results)
  } finally {
    run('pg_ctl', '-D', data, '-m', 'immediate', 'stop')
  }
}

try {
  await measureBackups()
} finally {
  rmSync(root, { recursive: true, force: true })
}
