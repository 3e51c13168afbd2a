/** Complete copies without unneeded WAL: the control file values that decide, and the recovery of a real Postgres. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Cluster } from '../../../cluster/index.ts'
import { connectPostgres, openPostgresCluster, postgresPod } from '../testing/postgres.ts'
import { claim, namespace, pod, ready, until, untilPod } from '../testing/runtime.ts'
import { redoOf } from './control-file.ts'
import { isBeforeRecovery } from './wal.ts'

const segmentBytes = 2n ** 24n

test.each([
  ['that ends before it', '000000010000000000000004', 5n * segmentBytes, true],
  ['of another timeline', '0000000A0000000000000004', 5n * segmentBytes, true],
  ['that contains it', '000000010000000000000005', 5n * segmentBytes + 40n, false],
  ['that contains its last byte', '000000010000000000000004', 5n * segmentBytes - 1n, false],
  ['after it', '000000010000000000000006', 5n * segmentBytes, false],
  ['of another 4 GiB', '000000010000000100000000', 5n * segmentBytes, false],
  ['without a known position', '000000010000000000000004', undefined, false],
  ['that is no segment', '00000002.history', 5n * segmentBytes, false],
])('recovery from a position: a file of WAL %s', (_, name, redo, isBefore) => {
  expect(isBeforeRecovery(`/v/pgdata/pg_wal/${name}`, segmentBytes, redo)).toBe(isBefore)
})

const settings = ['summarize_wal=on', 'min_wal_size=32MB', 'max_wal_size=64MB']

async function running(cluster: Cluster, name: string, options: Parameters<typeof postgresPod>[0]) {
  await cluster.create('Pod', pod(name, postgresPod(options)))
  const client = await connectPostgres((await untilPod(cluster, name, ready, 30_000)).status)
  return { client, one: async (sql: string) => (await client.query(sql)).rows[0] }
}

test('a copy recovers without the WAL before its checkpoint, and removes and summarises its own as usual', {
  timeout: 60_000,
}, async () => {
  const { cluster, directory } = await openPostgresCluster()
  await cluster.create('PersistentVolumeClaim', claim('data'))
  const source = await running(cluster, 'db', { claimName: 'data', settings })
  await source.client.query('CREATE TABLE t (id int PRIMARY KEY, filler text)')
  const insert = (from: number) =>
    source.client.query(`INSERT INTO t SELECT n, repeat('x', 900) FROM generate_series(${from}, ${from + 29_999}) n`)
  await insert(0)
  // A slot that lags behind retains segments that recovery does not need.
  const { pid } = await source.one("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsummarizer'")
  process.kill(pid, 'SIGSTOP')
  onTestFinished(() => {
    try {
      process.kill(pid, 'SIGCONT')
    } catch {
      // The connection has ended with its Postgres.
    }
  })
  await insert(30_000)
  await source.client.query('CHECKPOINT')
  await source.client.query('INSERT INTO t VALUES (-1)')
  const redo = 'SELECT redo_wal_file AS first FROM pg_control_checkpoint()'
  const { first } = await source.one(redo)
  const { count } = await source.one(`SELECT count(*)::int FROM pg_ls_waldir() WHERE name < '${first}'`)
  expect(count).toBeGreaterThan(1)
  await cluster.create('VolumeSnapshot', {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { name: 'image', namespace },
    spec: { source: { persistentVolumeClaimName: 'data' } },
  })
  const taken = async () => (await cluster.get('VolumeSnapshot', { namespace, name: 'image' }))?.status
  await until(async () => (await taken())?.readyToUse === true, 20_000)
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  const copied = files.flatMap(path => /snapshots\/.*\/pg_wal\/([0-9A-F]{24})$/.exec(path)?.[1] ?? [])
  expect(copied.sort().at(0)).toBe(first)

  const control = readFileSync(
    join(directory, files.find(path => /snapshots\/.*\/global\/pg_control$/.test(path)) ?? ''),
  )
  expect(redoOf(control)).toBeTypeOf('bigint')
  control[41] = (control[41] ?? 0) ^ 1
  expect([redoOf(control), redoOf(control.subarray(0, 100)), redoOf(Buffer.alloc(8192))]).toEqual([
    undefined,
    undefined,
    undefined,
  ])

  const dataSource = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'image' }
  await cluster.create('PersistentVolumeClaim', claim('copy', { dataSource }))
  const copy = await running(cluster, 'copy', {
    claimName: 'copy',
    prepare: 'rm /data/pgdata/postmaster.pid',
    settings,
  })
  expect(await copy.one('SELECT count(*)::int, sum(id)::bigint::text FROM t')).toEqual({
    count: 60_001,
    sum: '1799969999',
  })
  await copy.client.query('CREATE EXTENSION amcheck')
  await copy.client.query(
    "SELECT bt_index_check(c.oid, true) FROM pg_class c WHERE relkind = 'i' AND relpersistence = 'p'",
  )
  const heaps = "SELECT verify_heapam(c.oid) FROM pg_class c WHERE relkind IN ('r', 't') AND relpersistence = 'p'"
  expect((await copy.client.query(heaps)).rows).toEqual([])
  await copy.client.query('UPDATE t SET filler = filler || id; CHECKPOINT')
  const behind =
    'SELECT (summarized_lsn >= redo_lsn) AS done FROM pg_get_wal_summarizer_state(), pg_control_checkpoint()'
  await until(async () => (await copy.one(behind)).done, 20_000, 'its WAL summarised')
  await copy.client.query('CHECKPOINT')
  const { first: now } = await copy.one(redo)
  expect(now > first).toBe(true)
  expect(await copy.one(`SELECT count(*)::int FROM pg_ls_waldir() WHERE name < '${now}'`)).toEqual({ count: 0 })
  for (const { client } of [source, copy]) await client.end()
})
