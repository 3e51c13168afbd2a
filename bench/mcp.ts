/**
 * Measures the tool server, directly and through the bridge, with both versions of the protocol: requests per second,
 * p99 and processor time per request over 16 keep-alive connections. The processor time of the bridge includes its tool
 * server. The baseline is a node:http server that parses the request, runs the same statement with `pg` if there is
 * one, and responds with the same bytes. Short rounds alternate, and the result is the median of the ratios of
 * neighbouring rounds. Also measures the duration of a start, idle memory, and the effect of logins on other clients.
 *
 * With `AGAINST=<directory of another checkout>`, only compares the tool server with that checkout's.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../gateway/testing/sockets.ts'
import { startPostgres } from '../services/testing/postgres.ts'
import { measureLogins } from './mcp-logins.ts'
import { type McpServer, startBare, startBridge, startToolServer, startToolServerOf } from './mcp-servers.ts'
import { memoryMiB, processorSeconds, processTree } from './processes.ts'
import { type Load, type Measure, startLoad } from './rest-load.ts'
import { median, print } from './statistics.ts'

const rounds = 5
const seconds = 2
const connections = 16

const version = '2026-07-28'
type Question = {
  readonly name: string
  readonly method: string
  readonly params: object
  readonly isModern: boolean
  readonly statement: string | undefined
}

const query = (text: string, limit: number) => ({ name: 'query_database', arguments: { query: text, limit } })
const manyRows = 'SELECT id, name FROM bench_rows ORDER BY id'
const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }

const questions: readonly Question[] = [
  { name: 'initialize', method: 'initialize', params: initialize, isModern: false, statement: undefined },
  { name: 'discover, 2026-07-28', method: 'server/discover', params: {}, isModern: true, statement: undefined },
  ...[false, true].flatMap(isModern => {
    const era = isModern ? `, ${version}` : ''
    const call = { method: 'tools/call', isModern }
    return [
      { name: `tools/list${era}`, method: 'tools/list', params: {}, isModern, statement: undefined },
      { name: `select 1${era}`, ...call, params: query('SELECT 1', 100), statement: 'SELECT 1' },
      { name: `1,000 rows${era}`, ...call, params: query(manyRows, 1_000), statement: `${manyRows} LIMIT 1000` },
      {
        name: `get_schema_info${era}`,
        ...call,
        params: { name: 'get_schema_info', arguments: {} },
        statement: undefined,
      },
    ]
  }),
]

const claim = {
  'io.modelcontextprotocol/protocolVersion': version,
  'io.modelcontextprotocol/clientCapabilities': {},
}

function requestOf({ method, params, isModern }: Question, session: string | undefined) {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method,
    params: isModern ? { ...params, _meta: claim } : params,
  })
  const named = 'name' in params ? { 'Mcp-Name': String(params.name) } : {}
  const modern = { 'MCP-Protocol-Version': version, 'Mcp-Method': method, ...named }
  const legacy = session === undefined || method === 'initialize' ? {} : { 'Mcp-Session-Id': session }
  const common = {
    Host: '127.0.0.1',
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
  }
  return { body, headers: { ...common, ...(isModern ? modern : legacy) } }
}

function requestText(path: string, { body, headers }: ReturnType<typeof requestOf>): string {
  const lines = Object.entries({ ...headers, 'Content-Length': Buffer.byteLength(body) })
  return `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}

async function post(port: number, path: string, { body, headers }: ReturnType<typeof requestOf>): Promise<Response> {
  const { Host, ...others } = headers
  return fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers: others, body })
}

type Round = Measure & { readonly processorMs: number }

async function round(load: Load, server: McpServer, request: string): Promise<Round> {
  const before = processorSeconds(server.pid)
  const measured = await load.measure({ port: server.port, request, connections, seconds })
  return { ...measured, processorMs: ((processorSeconds(server.pid) - before) / measured.answers) * 1_000 }
}

/** Sends requests until V8 has compiled the measured code. Otherwise, the first server would be the slowest. */
async function warm(load: Load, { port }: McpServer, request: string): Promise<void> {
  let answers = 0
  for (let second = 0; second < 8 && answers < 15_000; second++)
    answers += (await load.measure({ port, request, connections, seconds: 1 })).answers
}

async function compare(load: Load, name: string, ours: [McpServer, string], bare: [McpServer, string]): Promise<void> {
  for (const [server, request] of [ours, bare]) await warm(load, server, request)
  const found: (readonly [Round, Round])[] = []
  for (let number = 0; number < rounds; number++) found.push([await round(load, ...ours), await round(load, ...bare)])
  const figure = (pick: (one: Round) => number, digits: number) => {
    const [own, other] = [found.map(([one]) => pick(one)), found.map(([, one]) => pick(one))]
    const ratio = median(own.map((one, index) => one / (other[index] ?? one)))
    return `${median(own).toFixed(digits)} to ${median(other).toFixed(digits)} (${ratio.toFixed(2)})`
  }
  const failures = found.reduce((sum, [one]) => sum + one.failures, 0)
  const [rates, waits] = [figure(one => one.perSecond, 0), figure(one => one.p99, 1)]
  const cost = figure(one => one.processorMs, 3)
  print(
    name,
    `${rates} per second, p99 ${waits} ms, ${cost} ms of processor time${failures === 0 ? '' : `; ${failures} FAILED`}`,
  )
}

/** Compares the tool server with that of another checkout. */
async function compareCheckouts(other: McpServer): Promise<void> {
  try {
    for (const question of chosen) {
      const request = requestText('/mcp/v1', requestOf(question, undefined))
      await compare(load, question.name, [direct, request], [other, request])
    }
  } finally {
    await Promise.all([direct.stop(), other.stop()])
    load.stop()
    await postgres.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

const wanted = process.argv.slice(2)
const chosen = questions.filter(({ name }) => wanted.length === 0 || wanted.some(word => name.startsWith(word)))
const directory = mkdtempSync(join(tmpdir(), 'bench-mcp-'))
const postgres = await startPostgres('18')
const load = startLoad()
const database = postgres.uri('postgres')
await postgres.run(
  `CREATE TABLE bench_rows AS SELECT n AS id, 'n' || n AS name FROM generate_series(1, 5000) n; ANALYZE bench_rows`,
)
// Ten tables with the one above: `get_schema_info` shows all columns of at most this number.
await postgres.run(
  `CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email text UNIQUE, created_at timestamptz DEFAULT now())`,
)
for (let number = 1; number <= 8; number++)
  await postgres.run(
    `CREATE TABLE orders_${number} (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, placed_at timestamptz NOT NULL DEFAULT now(), status text,
       total numeric(10,2) CHECK (total >= 0), note text); CREATE INDEX ON orders_${number} (customer_id, placed_at)`,
  )
const direct = await startToolServer(database)
const { AGAINST } = process.env
if (AGAINST !== undefined) {
  await compareCheckouts(await startToolServerOf(AGAINST, database))
  process.exit(0)
}
const bridge = await startBridge(database, directory, await freePort('127.0.0.1'))
try {
  print('tool server: start, memory', `${direct.startMs.toFixed(0)} ms, ${memoryMiB(direct.pid, 'now').toFixed(0)} MiB`)
  const memory = processTree(bridge.pid).reduce((sum, pid) => sum + memoryMiB(pid, 'now'), 0)
  print('bridge with its tool server: start, memory', `${bridge.startMs.toFixed(0)} ms, ${memory.toFixed(0)} MiB`)
  const begun = await post(bridge.port, '/mcp', requestOf({ ...(questions[0] as Question) }, undefined)) // there are questions
  const session = begun.headers.get('mcp-session-id') ?? undefined
  if (wanted.length === 0 || wanted.includes('logins')) {
    await measureLogins(load, database, directory, await freePort('127.0.0.1'))
  }
  for (const question of chosen) {
    const plain = requestOf(question, undefined)
    const body = await (await post(direct.port, '/mcp/v1', plain)).text()
    const bare = await startBare({ body, database, statement: question.statement })
    const against: [McpServer, string] = [bare, requestText('/', plain)]
    await compare(load, question.name, [direct, requestText('/mcp/v1', plain)], against)
    // At the bridge, each `initialize` would open a session, up to the limit.
    if (question.method !== 'initialize')
      await compare(
        load,
        `${question.name}, bridge`,
        [bridge, requestText('/mcp', requestOf(question, session))],
        against,
      )
    await bare.stop()
  }
} finally {
  await Promise.all([direct.stop(), bridge.stop()])
  load.stop()
  await postgres.stop()
  rmSync(directory, { recursive: true, force: true })
}
