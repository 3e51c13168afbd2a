/**
 * Measures point-in-time restores, as a branch and in place: the time from the request to the first query that finds
 * the restored data. Runs on the kind cluster after `make e2e PROVIDER=kind`, with an archive whose store is an S3
 * server on this machine. `make bench` does not run it, because it needs that cluster.
 *
 *     NODE_EXTRA_CA_CERTS=.kind/ca.crt node bench/kubernetes-archive.ts [branch place]
 *
 * Variables:
 * - ESPALIER_BENCH_MB: the size of the data in MB (default: 500)
 * - ESPALIER_BENCH_WAL: the WAL between the base backup and the restored time, in MB (default: 200)
 * - ESPALIER_BENCH_ROUNDS: the number of branches (default: 10). The number of restores in place is a third of it,
 *   because each needs a new base backup and new WAL
 */
import { loadavg } from 'node:os'
import { type Connection, connect, eventually, openTo, query } from '../e2e/client.ts'
import { isArchiving, startArchive } from '../e2e/kubernetes/archive-store.ts'
import { connectionOf, createBackup, succeeded } from '../e2e/kubernetes/requests.ts'
import { startKind } from '../e2e/providers/kind.ts'
import { against, median, percentile, print } from './statistics.ts'

const megabytes = Number(process.env.ESPALIER_BENCH_MB ?? 500)
const walMegabytes = Number(process.env.ESPALIER_BENCH_WAL ?? 200)
const rounds = Number(process.env.ESPALIER_BENCH_ROUNDS ?? 10)
/** The size of a row in the table of accounts, with its index entry. The table is like pgbench's. */
const bytesOfAccount = 150
const accounts = Math.round((megabytes * 1e6) / bytesOfAccount)
const timeoutMs = 300_000

const provider = await startKind()
const api = await provider.client('bencharchive')
const ip_allowlist = openTo(provider.clientAddress)

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
const machine = () => `load ${loadavg()[0]?.toFixed(1)}`

async function prepare(connection: Connection): Promise<void> {
  const client = await connect(connection)
  await client.query(`CREATE TABLE accounts AS SELECT n AS id, 0 AS balance, repeat('x', 84) AS filler
    FROM generate_series(1, ${accounts}) n; ALTER TABLE accounts ADD PRIMARY KEY (id);
    CREATE TABLE moment (n int); INSERT INTO moment VALUES (0)`)
  await client.end()
}

/** Updates single rows in distant pages. @returns the time after the updates, at which the table `moment` has `n` */
async function writeTo(connection: Connection, n: number): Promise<string> {
  const client = await connect(connection)
  try {
    const position = async () => {
      const { rows } = await client.query<{ at: string }>(`SELECT (pg_current_wal_lsn() - '0/0')::text AS at`)
      return Number(rows[0]?.at)
    }
    const end = (await position()) + walMegabytes * 1e6
    while ((await position()) < end)
      await client.query(`UPDATE accounts SET balance = balance + 1
        WHERE id = ANY (ARRAY(SELECT 1 + floor(random() * ${accounts})::int FROM generate_series(1, 200)))`)
    await client.query('UPDATE moment SET n = $1', [n])
    const { rows } = await client.query<{ now: Date }>('SELECT clock_timestamp() AS now')
    const moment = new Date((rows[0]?.now.getTime() ?? Number.NaN) + 1)
    await new Promise(resolve => setTimeout(resolve, 20))
    await client.query('UPDATE moment SET n = -1')
    return moment.toISOString()
  } finally {
    await client.end()
  }
}

/** Takes a base backup, writes WAL, and waits until the WAL is archived. @returns the time to restore */
async function momentOf(id: string, n: number): Promise<string> {
  await eventually('the database archives WAL', () => isArchiving(provider, id), timeoutMs)
  await succeeded(api, await createBackup(api, id, 'durable'))
  const moment = await writeTo(await api.connection(id), n)
  await eventually(
    'the recovery window reaches the moment',
    async () => {
      const { body } = await api.call<{ latest_time: string | null }>('GET', `/databases/${id}/recovery-window`)
      return (body.latest_time ?? '') > moment
    },
    timeoutMs,
  )
  return moment
}

const containsRow = async (connection: Connection, n: number) =>
  (await query<{ n: number }>(connection, 'SELECT n FROM moment'))[0]?.n === n

async function timed(what: string, serves: () => Promise<boolean>): Promise<number> {
  const began = performance.now()
  await eventually(what, serves, timeoutMs)
  const took = performance.now() - began
  console.error(`${what}: ${seconds(took)}, ${machine()}`)
  return took
}

function report(what: string, took: readonly number[]): void {
  const p95 = against(percentile(took, 0.95) / 1000, 30, 'at most', ' s')
  print(
    what,
    `p50 ${seconds(median(took))}, p95 ${p95}, maximum ${seconds(Math.max(...took))} of ${took.length}, ${machine()}`,
  )
}

async function measureBranches(id: string): Promise<void> {
  const path = `/databases/${id}/branches`
  const moment = await momentOf(id, 1)
  const took: number[] = []
  for (let round = 1; round <= rounds; round++) {
    let branchId: string | undefined
    const serves = async () => {
      if (branchId === undefined) {
        const { status, body } = await api.call<{ id: string }>('POST', path, { target_time: moment, ip_allowlist })
        if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`)
        branchId = body.id
      }
      return containsRow(await connectionOf(api, id, branchId), 1)
    }
    took.push(await timed(`branch ${round}`, serves))
    await api.call('DELETE', `${path}/${branchId}`, undefined, { prefer: 'wait=60' })
  }
  report('branch at a moment, to the first query', took)
}

async function measureRestores(id: string): Promise<void> {
  const took: number[] = []
  for (let round = 1; round <= Math.ceil(rounds / 3); round++) {
    const moment = await momentOf(id, round)
    const connection = await api.connection(id)
    let isAccepted = false
    const serves = async () => {
      if (!isAccepted) {
        const { status, body } = await api.call('POST', `/databases/${id}/restore`, { target_time: moment })
        if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`)
        isAccepted = true
      }
      return containsRow(connection, round)
    }
    took.push(await timed(`restore ${round}`, serves))
    await eventually(
      'the database is available',
      async () => (await api.read(id)).body.status === 'available',
      timeoutMs,
    )
  }
  report('restore in place to a moment, to the first query', took)
}

const measures = { branch: measureBranches, place: measureRestores }
const wanted = process.argv.slice(2)
try {
  const archive = await startArchive(provider)
  try {
    const { body } = await api.create({ name: 'moments', size: 'small', backup: { durable: true }, ip_allowlist })
    try {
      await eventually(
        'the database is available',
        async () => (await api.read(body.id)).body.status === 'available',
        timeoutMs,
      )
      await prepare(await api.connection(body.id))
      print('data', `${megabytes} MB in ${accounts} accounts, ${walMegabytes} MB of WAL`)
      for (const [name, measure] of Object.entries(measures))
        if (wanted.length === 0 || wanted.includes(name)) await measure(body.id)
    } finally {
      await api.remove(body.id, '?force=true&purge=true')
    }
  } finally {
    await archive.stop()
  }
} finally {
  await provider.stop()
}
