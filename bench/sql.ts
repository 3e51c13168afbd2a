/**
 * Measures SQL through the API: a million rows over HTTP, against the same rows through `pg`, which keeps the complete
 * result in memory. API, store and client share the measured process; Postgres is a separate process. The benchmark
 * checks that a client that stops reading for some seconds does not increase the API's memory.
 */
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { reconcile, startHarness, token } from '../api/testing/harness.ts'
import { childNames, systemNamespace, tenantNamespace } from '../crds/index.ts'
import { createAuthority } from '../operator/pki/index.ts'
import { createAdministrator } from '../operator/postgres/administrator.ts'
import { connectAs, startPostgres } from '../operator/postgres/testing/postgres.ts'
import { authorityConfigMap } from '../sealing/credentials.ts'
import { median, print } from './statistics.ts'

const rounds = Number(process.argv[2] ?? 3)
const rows = 1_000_000
const text = `SELECT n, md5(n::text) AS hash, now() AS at, n % 7 = 0 AS flag FROM generate_series(1, ${rows}) AS n`
const passwords = {
  app: 'password-of-app',
  admin: 'password-of-admin',
  app_read_only: 'password-of-app_read_only',
}
const MiB = 2 ** 20

/** Runs `work`. @returns the seconds, and the peak of additional memory in MiB */
async function measured(work: () => Promise<unknown>): Promise<{ mib: number; seconds: number }> {
  globalThis.gc?.()
  await sleep(200)
  const before = process.memoryUsage().rss
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss)
  }, 20)
  const started = performance.now()
  await work()
  const seconds = (performance.now() - started) / 1000
  clearInterval(timer)
  return { mib: (most - before) / MiB, seconds }
}

const authority = createAuthority()
let address: { host: string; port: number } | undefined
const harness = await startHarness({ resolve: () => address })
const authorization = `Bearer ${await token()}`
const created = await harness.app.inject({
  method: 'POST',
  url: '/managed/v1/databases',
  headers: { authorization, 'content-type': 'application/json' },
  payload: JSON.stringify({ name: 'bench', region: 'local', size: 'small' }),
})
const { id } = created.json<{ id: string }>()
await reconcile(harness.cluster, 'acme', 'bench')
const serverName = `${childNames.service(id)}.${tenantNamespace('acme')}.svc`
const postgres = await startPostgres({ major: '18', tls: authority, serverName })
address = { host: postgres.host, port: postgres.port }
await harness.cluster.create('ConfigMap', {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: authorityConfigMap, namespace: systemNamespace },
  data: { 'ca.crt': authority.cert },
})
const administrator = createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) })
const desired = async () => ({ passwords, passwordVersion: 'm' })
await administrator.ensureRoles(postgres.target, desired, new AbortController().signal)
await harness.app.listen({ host: '127.0.0.1', port: 0 })
const { port } = harness.app.server.address() as AddressInfo // a TCP server has an AddressInfo

/** Reads the result without keeping it, with a pause of `pauseMs` in the middle. Returns the last line. */
function read(maximum: number, pauseMs = 0): Promise<string> {
  const body = JSON.stringify({ text, max_rows: maximum, timeout_seconds: 600 })
  const headers = { authorization, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  return new Promise((resolve, reject) => {
    const sent = request({ port, method: 'POST', path: `/managed/v1/databases/${id}/sql`, headers }, response => {
      let [bytes, end, hasPaused] = [0, '', false]
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        end = (end + chunk.toString('latin1').slice(-400)).slice(-400)
        if (pauseMs === 0 || hasPaused || bytes < 20 * MiB) return
        hasPaused = true
        response.pause()
        setTimeout(() => response.resume(), pauseMs)
      })
      response.on('end', () => resolve(end.trim().split('\n').at(-1) ?? '')).on('error', reject)
    })
    sent.on('error', reject).end(body)
  })
}

async function readAll(pauseMs = 0): Promise<void> {
  const last = JSON.parse(await read(rows, pauseMs))
  if (last.row_count !== rows) throw new Error(JSON.stringify(last))
}

async function readByPg(): Promise<void> {
  const client = await connectAs(postgres, 'app_read_only', passwords.app_read_only)
  try {
    const { rowCount } = await client.query({ text, rowMode: 'array' })
    if (rowCount !== rows) throw new Error(`pg returned ${rowCount} rows`)
  } finally {
    await client.end()
  }
}

await read(100_000)
const works = [
  { name: 'API, 10,000 rows', work: () => read(10_000) },
  { name: 'API, 1,000,000 rows', work: () => readAll() },
  { name: 'API, 1,000,000 rows, a pause of 3 s', work: () => readAll(3_000) },
  { name: 'pg, the whole result', work: readByPg },
].map(one => ({ ...one, results: [] as { mib: number; seconds: number }[] }))
for (let round = 0; round < rounds; round++) for (const { work, results } of works) results.push(await measured(work))
for (const { name, results } of works) {
  const of = (key: 'mib' | 'seconds') => median(results.map(result => result[key]))
  print(name, `${of('seconds').toFixed(1)} s, ${of('mib').toFixed(0)} MiB added memory`)
}
await harness.close()
await postgres.stop()
