/** Snapshots of a Postgres under load. Each image must be a possible state after a power failure. */
import type pg from 'pg'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { Cluster } from '../../../cluster/index.ts'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../../operator/postgres/testing/ledger.ts'
import { isSoak } from '../../../operator/testing/soak.ts'
import { connectPostgres, openPostgresCluster, postgresPod } from '../testing/postgres.ts'
import { claim, namespace, pod, ready, until, untilPod } from '../testing/runtime.ts'

const settings = ['checkpoint_timeout=30s', 'max_wal_size=64MB']
/** The test starts a Postgres on each snapshot. */
const snapshotCount = isSoak ? 10 : 4

/** Extra characters in the log row of each step. */
const padding = 20

/** Transfers money, and counts each step in two tables, until stopped. */
async function write(client: pg.Client, writer: number, acknowledged: number[], signal: AbortSignal): Promise<void> {
  for (let n = 1; !signal.aborted; n += 1) {
    await transfer(client, writer, n, padding)
    acknowledged[writer] = n
  }
}

async function snapshotOf(cluster: Cluster, name: string): Promise<void> {
  await cluster.create('VolumeSnapshot', {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { name, namespace },
    spec: { source: { persistentVolumeClaimName: 'data' } },
  })
  const taken = async () => (await cluster.get('VolumeSnapshot', { namespace, name }))?.status
  await until(async () => (await taken())?.readyToUse === true, 20_000, `snapshot ${name}`)
}

/** Starts a Postgres on the image and checks that its content is consistent. */
async function check(cluster: Cluster, name: string, atLeast: number[], atMost: number[]): Promise<void> {
  const dataSource = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name }
  await cluster.create('PersistentVolumeClaim', claim(name, { dataSource }))
  await cluster.create(
    'Pod',
    pod(name, postgresPod({ claimName: name, prepare: 'rm /data/pgdata/postmaster.pid', settings: ['fsync=off'] })),
  )
  const client = await connectPostgres((await untilPod(cluster, name, ready)).status)
  const one = async (sql: string) => (await client.query(sql)).rows[0]
  expect(await one('SELECT sum(balance)::int AS sum, count(*)::int AS count FROM account')).toEqual({
    ...{ sum: accounts * balance, count: accounts },
  })
  const { rows } = await client.query(`
    SELECT step.writer, step.n, count(trace.n)::int AS traces, coalesce(max(trace.n), 0) AS last
    FROM step LEFT JOIN trace USING (writer) GROUP BY step.writer, step.n`)
  for (const { writer, n, traces, last } of rows) {
    expect([traces, last]).toEqual([n, n])
    expect(n).toBeGreaterThanOrEqual(atLeast[writer] ?? 0)
    // The image may contain the transaction that was running, acknowledged or not.
    expect(n).toBeLessThanOrEqual((atMost[writer] ?? 0) + 1)
  }
  await client.query('CREATE EXTENSION amcheck')
  await client.query(`SELECT bt_index_check(c.oid, true) FROM pg_class c WHERE relkind = 'i' AND relpersistence = 'p'`)
  await client.end()
  await cluster.delete('Pod', { namespace, name })
  await cluster.delete('PersistentVolumeClaim', { namespace, name })
}

test('every snapshot of a Postgres under load recovers, with nothing lost or torn', {
  timeout: 180_000,
}, async () => {
  const freezes: { frozenMs: number; processes: number }[] = []
  const logger = pino(
    { level: 'info' },
    { write: line => void (line.includes('took a snapshot') && freezes.push(JSON.parse(line))) },
  )
  const { cluster } = await openPostgresCluster({ logger })
  await cluster.create('PersistentVolumeClaim', claim('data'))
  await cluster.create('Pod', pod('db', postgresPod({ claimName: 'data', settings })))
  const up = await untilPod(cluster, 'db', ready, 30_000)
  const setup = await connectPostgres(up.status)
  await setup.query(ledgerSchema)
  await setup.end()

  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const acknowledged = Array.from({ length: writerCount }, () => 0)
  const writers: Promise<void>[] = []
  for (let writer = 0; writer < writerCount; writer += 1) {
    const client = await connectPostgres(up.status)
    writers.push(write(client, writer, acknowledged, stop.signal).finally(() => client.end()))
  }
  await until(() => acknowledged.every(n => n > 0))

  const bounds: { name: string; before: number[]; after: number[] }[] = []
  for (let index = 0; index < snapshotCount; index += 1) {
    const name = `snapshot-${index}`
    const before = [...acknowledged]
    await snapshotOf(cluster, name)
    bounds.push({ name, before, after: [...acknowledged] })
    const reached = [...acknowledged]
    await until(() => reached.every((n, writer) => (acknowledged[writer] ?? 0) > n + 5))
  }
  stop.abort()
  await Promise.all(writers)

  for (let index = 0; index < snapshotCount; index += 2) {
    await Promise.all(
      bounds.slice(index, index + 2).map(({ name, before, after }) => check(cluster, name, before, after)),
    )
  }
  expect(freezes).toHaveLength(snapshotCount)
  expect(Math.min(...freezes.map(({ processes }) => processes))).toBeGreaterThan(5)
  expect(Math.max(...freezes.map(({ frozenMs }) => frozenMs))).toBeLessThan(5000)
  if (process.env.ESPALIER_TEST_LOG) console.log(freezes.map(({ frozenMs }) => Math.round(frozenMs)))
})
