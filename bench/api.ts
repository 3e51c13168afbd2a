/**
 * Measures the API with 1,000 databases: a single GET, and a page of 100. The baseline is a bare Fastify route in the
 * same process that returns the same bytes. Short rounds alternate between the two. The result is the median of the
 * ratios of neighbouring rounds, so that a short load of the machine has no effect. A separate process sends requests.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import Fastify from 'fastify'
import { bearer, reconcile, startHarness } from '../api/testing/harness.ts'
import { apiVersion, labels, tenantNamespace } from '../crds/index.ts'
import { median } from './statistics.ts'

const databases = 1000
const rounds = 9
const seconds = 1
const connections = 20

type Load = { url: string; authorization: string; seconds: number }
type Measure = { perSecond: number; p99: number; failures: number }

/** Runs autocannon once. The child process calls this for each message. */
async function fire({ url, authorization, seconds: duration }: Load): Promise<Measure> {
  const result = await autocannon({ url, connections, duration, headers: { authorization } })
  const failures = result.errors + result.timeouts + result.non2xx
  return { perSecond: result.requests.total / result.duration, p99: result.latency.p99, failures }
}

const startLoad = () =>
  fork(fileURLToPath(import.meta.url), ['load'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })

async function measure(child: ChildProcess, load: Load): Promise<Measure> {
  child.send(load)
  const [measured] = await once(child, 'message')
  return measured
}

async function fill(harness: Awaited<ReturnType<typeof startHarness>>): Promise<string> {
  const headers = await bearer()
  const payload = { name: 'first', region: 'local', size: 'small', ip_allowlist: { rules: [{ cidr: '203.0.113.7' }] } }
  const first = await harness.app.inject({ method: 'POST', url: '/managed/v1/databases', headers, payload })
  const id: string = first.json().id
  const namespace = tenantNamespace('acme')
  const model = await harness.cluster.get('ManagedDatabase', { namespace, name: 'first' })
  for (let n = 1; model !== undefined && n < databases; n++) {
    const metadata = {
      name: `d${n}`,
      namespace,
      labels: { ...model.metadata.labels, [labels.id]: crypto.randomUUID() },
    }
    await harness.cluster.create('ManagedDatabase', { apiVersion, kind: 'ManagedDatabase', metadata, spec: model.spec })
    await reconcile(harness.cluster, 'acme', `d${n}`)
  }
  await reconcile(harness.cluster, 'acme', 'first')
  return id
}

/** Starts the baseline: a route that only sends these bytes. */
async function startBare(text: string) {
  const app = Fastify()
  app.get('/', (_request, reply) => reply.type('application/json; charset=utf-8').send(text))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app
}

const urlOf = (server: { address(): AddressInfo | string | null }): string => {
  const address = server.address()
  return typeof address === 'object' && address !== null ? `http://127.0.0.1:${address.port}` : ''
}

async function compare(name: string, url: string, authorization: string): Promise<void> {
  const answer = await fetch(url, { headers: { authorization } })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${text}`)
  const bare = await startBare(text)
  const child = startLoad()
  const pairs: { ours: Measure; theirs: Measure }[] = []
  for (let round = -1; round < rounds; round++) {
    const theirs = await measure(child, { url: urlOf(bare.server), authorization, seconds })
    const ours = await measure(child, { url, authorization, seconds })
    // The first round is a warm-up for both.
    if (round >= 0) pairs.push({ ours, theirs })
  }
  child.disconnect()
  await bare.close()
  report(name, Buffer.byteLength(text), pairs)
}

function report(name: string, bytes: number, pairs: { ours: Measure; theirs: Measure }[]): void {
  const of = (pick: (pair: { ours: Measure; theirs: Measure }) => number) => median(pairs.map(pick))
  const ratio = of(({ ours, theirs }) => ours.perSecond / theirs.perSecond)
  const slower = of(({ ours, theirs }) => ours.p99 / Math.max(theirs.p99, 1))
  const [rate, bareRate] = [of(({ ours }) => ours.perSecond), of(({ theirs }) => theirs.perSecond)].map(Math.round)
  const [p99, bareP99] = [of(({ ours }) => ours.p99), of(({ theirs }) => theirs.p99)]
  const failures = pairs.reduce((sum, { ours, theirs }) => sum + ours.failures + theirs.failures, 0)
  console.log(
    `${name.padEnd(28)} ${bytes} bytes: ${ratio.toFixed(2)} of the bare route's requests per second ` +
      `(${rate} to ${bareRate}; at least 0.5), p99 ${slower.toFixed(2)} times its (${p99} ms to ${bareP99} ms; under 5); ` +
      `${failures} failures`,
  )
}

async function benchApi(): Promise<void> {
  const harness = await startHarness()
  const id = await fill(harness)
  const { authorization } = await bearer()
  await harness.app.listen({ host: '127.0.0.1', port: 0 })
  const base = `${urlOf(harness.app.server)}/managed/v1/databases`
  await compare('GET one of 1,000 databases', `${base}/${id}`, authorization)
  await compare('GET a page of 100 of 1,000', `${base}?limit=100&offset=450`, authorization)
  await harness.close()
}

if (import.meta.main) {
  if (process.argv[2] === 'load') {
    process.on('message', (load: Load) => void fire(load).then(measured => process.send?.(measured)))
  } else await benchApi()
}
