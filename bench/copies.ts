/**
 * Measures backups, branches and restores under load, on one machine or, with ESPALIER_E2E_PROVIDER=kind, on a cluster:
 * - the duration of each, from the request to the end, against the creation of an empty database;
 * - the longest gap between two commits of the source meanwhile;
 * - on one machine, the storage of unchanged branches, against the source's volume with WAL, and against its data.
 *
 * Four sessions send pgbench's transactions. ESPALIER_BENCH_MB is the size of the source's data in MB; they use about
 * 4 % more. TMPDIR selects the file system. If it cannot share blocks, each copy is full, unless root sets
 * ESPALIER_POOL to `auto`.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { labels } from '../crds/index.ts'
import { type Connection, connect, type Database, eventually, openTo, query } from '../e2e/client.ts'
import { startProvider } from '../e2e/provider.ts'
import { canShareBlocks } from '../embedded/runtime/volumes/share.ts'
import { against, median, percentile, print } from './statistics.ts'

const megabytes = Number(process.env.ESPALIER_BENCH_MB ?? '500')
const size = process.env.ESPALIER_BENCH_SIZE ?? 'small'
const isKind = process.env.ESPALIER_E2E_PROVIDER === 'kind'
const rounds = Number(process.env.ESPALIER_BENCH_ROUNDS ?? '20')
const sessions = 4
const unchangedBranches = 10
/** The size of a row in the table of accounts, with its index entry. The table is like pgbench's. */
const bytesOfAccount = 150
const accounts = Math.round((megabytes * 1e6) / bytesOfAccount)

const provider = await startProvider()
const api = await provider.client('bench')
const wait = { prefer: 'wait=60' }
const ip_allowlist = openTo(provider.clientAddress)

type CreatedObject = { id: string; status: string; connection?: { port: number; host: string; password: string } }
type Aims = { seconds?: number; gap?: number }

async function prepare(source: Connection): Promise<void> {
  const client = await connect(source)
  await client.query(`CREATE TABLE accounts AS SELECT n AS id, 0 AS balance, repeat('x', 84) AS filler
    FROM generate_series(1, ${accounts}) n; ALTER TABLE accounts ADD PRIMARY KEY (id);
    CREATE TABLE history (id int, delta int, at timestamptz)`)
  await client.end()
}

/** Sends transactions continuously. A disconnected session connects again. */
function startLoad(source: Connection) {
  let isStopped = false
  let last = performance.now()
  let longest = 0
  let count = 0
  const transact = async (client: pg.Client) => {
    const [id, delta] = [1 + Math.floor(Math.random() * accounts), Math.floor(Math.random() * 1_000) - 500]
    await client.query('BEGIN')
    await client.query('UPDATE accounts SET balance = balance + $2 WHERE id = $1', [id, delta])
    await client.query('SELECT balance FROM accounts WHERE id = $1', [id])
    await client.query('INSERT INTO history VALUES ($1, $2, now())', [id, delta])
    await client.query('COMMIT')
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    count++
  }
  const run = async () => {
    while (!isStopped) {
      try {
        const client = await connect(source)
        try {
          while (!isStopped) await transact(client)
        } finally {
          await client.end()
        }
      } catch {
        await new Promise(resolve => setTimeout(resolve, 10))
      }
    }
  }
  const running = Array.from({ length: sessions }, run)
  return {
    /** Returns the longest gap since the previous call. */
    gap: () => {
      const gap = Math.max(longest, performance.now() - last)
      longest = 0
      return gap
    },
    stop: async () => {
      isStopped = true
      await Promise.all(running)
      print('transactions during the measurement', String(count))
    },
  }
}
type Load = ReturnType<typeof startLoad>

/**
 * Runs one round that does not count, and then the requested number. `work` returns a function that deletes the created
 * object. @returns the median, in s
 */
async function measure(what: string, load: Load, work: () => Promise<() => Promise<unknown>>, aims: Aims) {
  const took: number[] = []
  const gaps: number[] = []
  for (let round = -1; round < rounds; round++) {
    load.gap()
    const start = performance.now()
    const takeAway = await work()
    const ms = performance.now() - start
    const gap = load.gap()
    await takeAway()
    if (round < 0) continue
    took.push(ms / 1000)
    gaps.push(gap / 1000)
  }
  const compared = (value: number, aim: number | undefined) =>
    aim === undefined ? `${value.toFixed(2)} s` : against(value, aim, 'at most', ' s')
  print(
    `${what}: duration from the request`,
    `p95 ${compared(percentile(took, 0.95), aims.seconds)}, median ${median(took).toFixed(2)} s`,
  )
  print(
    '  longest gap between two commits',
    `${compared(Math.max(...gaps), aims.gap)}, median ${median(gaps).toFixed(2)} s`,
  )
  return median(took)
}

const runtime = 'home' in provider ? join(String(provider.home), 'runtime') : tmpdir()
/** The directory whose storage is measured, in an embedded installation. */
const measured = existsSync(join(runtime, 'pool')) ? join(runtime, 'pool') : runtime
const sharesBlocks = !isKind && canShareBlocks(measured)

const diskUse = (directory: string, ...options: string[]): number =>
  Number(execFileSync('du', ['-s', '-B1', ...options, directory], { encoding: 'utf8' }).split('\t')[0])

/**
 * Returns the storage of volumes and snapshots. They can be on a separate file system, on a file system that other
 * programs use, or on one without shared blocks.
 */
function bytesTaken(): number {
  execFileSync('sync', ['-f', measured])
  if (!sharesBlocks) return diskUse(runtime)
  const { blocks, bfree, bsize } = statfsSync(measured)
  return (blocks - bfree) * bsize
}

/** Waits until the used storage no longer changes, because a file system frees deleted blocks with a delay. */
async function stableUsedBytes(): Promise<number> {
  let before = bytesTaken()
  for (let same = 0; same < 3; ) {
    await new Promise(resolve => setTimeout(resolve, 2_000))
    const now = bytesTaken()
    same = Math.abs(now - before) < 1e6 ? same + 1 : 0
    before = now
  }
  return before
}

const { body: database } = await api.create({ name: 'source', size, ip_allowlist })
const path = `/databases/${database.id}`
try {
  const source = await api.connection(database.id)
  await prepare(source)
  const load = startLoad(source)

  /** Waits for the status, even if that takes longer than the request's timeout. */
  const reaches = (status: string, what: string) =>
    eventually(
      `${what} is ${status}`,
      async () => {
        const { body } = await api.call<CreatedObject>('GET', what)
        return body.status === status && body
      },
      300_000,
    )
  const backUp = async () => {
    const { body } = await api.call<CreatedObject>('POST', `${path}/backup`, { kind: 'hot' }, wait)
    await reaches('completed', `/backups/${body.id}`)
    return body.id
  }
  const branch = async () => {
    const { body } = await api.call<CreatedObject>('POST', `${path}/branches`, {}, wait)
    const ready = await reaches('available', `${path}/branches/${body.id}`)
    if (ready.connection === undefined) throw new Error(`the branch is ${ready.status}`)
    const { port, host, password } = ready.connection
    await query({ ...source, port, host, password }, 'SELECT balance FROM accounts WHERE id = 1')
    return body.id
  }
  const remove = (what: string) => async () => api.call('DELETE', what, undefined, wait)
  const create = async () => {
    const { body } = await api.create({ name: 'empty', size, ip_allowlist }, wait)
    await reaches('available', `/databases/${body.id}`)
    await query(await api.connection(body.id), 'SELECT 1')
    return body.id
  }
  print('data', `${megabytes} MB in ${accounts} accounts, ${sessions} sessions`)
  // This backup makes a checkpoint. Otherwise, the first measurement would include the time to write the data.
  await remove(`/backups/${await backUp()}`)()
  const empty = await measure(
    'an empty database, to the first query',
    load,
    async () => remove(`/databases/${await create()}`),
    {},
  )
  await measure('backup', load, async () => remove(`/backups/${await backUp()}`), { seconds: 3, gap: 1 })
  const branched = await measure(
    'branch, to the first query',
    load,
    async () => remove(`${path}/branches/${await branch()}`),
    {
      ...(isKind ? { seconds: 4 } : sharesBlocks ? { seconds: 1.5 } : {}),
      gap: 1,
    },
  )
  print('  median, relative to an empty database', (branched / empty).toFixed(2))
  await load.stop()

  if (!isKind) {
    const volumes = () => provider.cluster.list('PersistentVolume', { labels: { [labels.database]: true } })
    const isAlone = async () => (await volumes()).items.length === 1
    // Without this VACUUM, autovacuum would later change every page of the source and of each branch.
    await query(source, 'VACUUM (FREEZE, ANALYZE)')
    await eventually('the volumes of the earlier branches are deleted', isAlone, 300_000)
    const [volume] = (await volumes()).items
    const directory = join(measured, 'volumes', volume?.spec?.csi?.volumeHandle ?? '')
    const bytes = { all: diskUse(directory), data: diskUse(directory, '--exclude=pg_wal') }
    const branchIds: string[] = []
    for (let number = 0; number < unchangedBranches; number++) branchIds.push(await branch())
    const before = await stableUsedBytes()
    for (const id of branchIds) await remove(`${path}/branches/${id}`)()
    // The storage of the branches is the space that their deletion frees. Earlier copies are already deleted.
    await eventually('the volumes of the branches are deleted', isAlone, 300_000)
    const alone = await stableUsedBytes()
    const percent = (sourceBytes: number) => ((before - alone) / sourceBytes) * 100
    const storageUsed = against(percent(bytes.all), sharesBlocks ? 5 : unchangedBranches * 100, 'at most', ' %')
    print('storage of the source', `${Math.round(bytes.all / 1e6)} MB, ${Math.round(bytes.data / 1e6)} without its WAL`)
    print(`storage of ${unchangedBranches} unchanged branches`, `${storageUsed} of the source`)
    print('  relative to the source without WAL', `${percent(bytes.data).toFixed(2)} %`)
  }

  const backup = await backUp()
  const restore = async () => {
    const { status } = await api.call<Database>('POST', `${path}/restore`, { backup_id: backup })
    if (status !== 202) throw new Error(`the restore is refused: ${status}`)
    const isBack = async () => (await api.read(database.id)).body.status === 'available' && query(source, 'SELECT 1')
    await eventually('the restored database answers a query', isBack, 300_000)
    // Otherwise, the remaining work would delay the next restore.
    return () =>
      eventually('every remaining backup is completed', async () => {
        const { body } = await api.call<(CreatedObject & { purpose: string })[]>(
          'GET',
          `/backups?database_id=${database.id}`,
        )
        for (const { id, purpose, status } of body)
          if (purpose !== 'user' && status === 'completed') await api.call('DELETE', `/backups/${id}`)
        return body.every(({ status }) => status === 'completed')
      })
  }
  const again = startLoad(source)
  await measure('restore, to the first query', again, restore, {})
  await again.stop()
} finally {
  await api.remove(database.id, '?force=true')
  await provider.stop()
}
