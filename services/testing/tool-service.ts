/**
 * A second service for tests: an HTTP tool server on Postgres. It uses only the shared modules, with its own keys,
 * syntax, errors and names. It reads its configuration as JSON from a file: `node services/testing/tool-service.ts
 * FILE`.
 */
import { readFileSync } from 'node:fs'
import { pino } from 'pino'
import { Counter, Registry } from 'prom-client'
import { stopSignal } from '../../server/signals.ts'
import { DatabaseError } from '../../wire/errors.ts'
import { bearerChallenge } from '../authentication/challenge.ts'
import { AuthenticationError } from '../authentication/errors.ts'
import { createAuthenticator } from '../authentication/index.ts'
import { key, type Settings } from '../configuration/declaration.ts'
import { describeSettings } from '../configuration/describe.ts'
import { load } from '../configuration/loader.ts'
import type { Form } from '../configuration/sources.ts'
import * as values from '../configuration/values.ts'
import { HttpError } from '../http/errors.ts'
import { closeServer, listen } from '../http/listen.ts'
import type { Handler, HttpResponse } from '../http/message.ts'
import { Pieces } from '../http/pieces.ts'
import { makeServer } from '../http/server.ts'
import { connectionAddress } from '../postgres/address.ts'
import { Pool } from '../postgres/pool.ts'
import { transact } from '../postgres/transact.ts'
import { startWorkers } from '../process/supervisor.ts'
import {
  disconnectWorkers,
  isWorker,
  serveAsWorker,
  type WorkerService,
  type WorkerShare,
  workerStopSignal,
} from '../process/workers.ts'
import { readSchemaCache } from '../schema-cache/load.ts'

const declaration = {
  database: key(values.connection(), 'postgresql://', 'Where to read.'),
  connections: key(values.integer(1, 100), 4, 'Most connections, over all workers.'),
  workers: key(values.integer(1, 8), 2, 'Worker processes.'),
  secret: key(values.secret(), '', 'What tokens are signed with.', { isSecret: true }),
  body_limit: key(values.integer(1, 1_000_000), 1_000, 'Most bytes of a body.'),
}
const form: Form = {
  parse: ({ text }) => ({ root: JSON.parse(text), sourceOf: () => ({ kind: 'file', line: 1 }), problems: [] }),
  environmentPrefix: 'TOOL_',
}

const json = (status: number, value: unknown, headers: HttpResponse['headers'] = []): HttpResponse => ({
  status,
  headers: [['Content-Type', 'application/json'], ...headers],
  body: JSON.stringify(value),
})

/** Errors in JSON-RPC's form. */
function renderError(error: unknown): HttpResponse {
  const reply = (status: number, message: string, headers?: HttpResponse['headers']) =>
    json(status, { jsonrpc: '2.0', error: { code: -32_000 - status, message } }, headers)
  if (error instanceof AuthenticationError)
    return reply(401, error.message, [
      bearerChallenge({ error: 'invalid_token', error_description: error.refusal.kind }),
    ])
  if (error instanceof HttpError) return reply(413, error.message)
  if (error instanceof DatabaseError) return reply(422, `${error.sqlState}: ${error.message}`)
  return reply(500, 'no idea')
}

async function start(
  settings: Settings<typeof declaration>,
  { poolSize, onListening }: WorkerShare,
): Promise<WorkerService<'schema'>> {
  const address = connectionAddress(settings.database)
  const times = { acquisitionTimeoutMs: 5_000, maximumLifetimeMs: 60_000, maximumIdleMs: 10_000 }
  const pool = new Pool({ address, size: poolSize, ...times }, Date.now)
  const tokens = { jwtSecret: settings.secret, roleClaimKey: '.role', cacheMaxEntries: 10 }
  const authenticator = createAuthenticator(tokens, Date.now)
  const readTables = async () => {
    const cache = await readSchemaCache(address, { schemas: ['public'], hoistedSettings: [], timeZones: false })
    return [...(cache.tables.get('public')?.keys() ?? [])]
  }
  let tables = await readTables()
  const registry = new Registry()
  const calls = new Counter({ name: 'tool_calls_total', help: 'Calls', registers: [registry] })

  const handle: Handler = async ({ path, headers }, body, signal) => {
    calls.inc()
    const { role } = await authenticator.authenticate(headers.authorization)
    if (role === undefined)
      return json(403, { jsonrpc: '2.0', error: { code: -32_403, message: 'a role is required' } })
    if (path === '/tables') return json(200, tables)
    const pieces = new Pieces()
    await body.read({
      push: chunk => pieces.add(chunk),
      get bufferedBytes() {
        return pieces.length
      },
    })
    const become = { text: `SELECT set_config('role', $1, true)`, values: [role] }
    const query = { text: Buffer.concat([pieces.bytes()].flat()).toString(), values: [] }
    const [, rows = []] = await transact(pool, signal, connection => connection.run([become, query], false))
    return json(
      200,
      rows.map(row => row.map(String)),
    )
  }
  const cors = { origins: [], methods: 'POST', exposedHeaders: 'Mcp-Session-Id' }
  const server = makeServer({
    product: 'tool/1',
    maximumBodyBytes: settings.bodyLimit,
    maximumHeaderBytes: 8_192,
    rules: () => ({ cors, traceHeader: undefined }),
    handle,
    renderError,
  })
  onListening(await listen(server, { host: '127.0.0.1', port: 0 }))
  return {
    isReady: () => server.listening,
    configuration: () => describeSettings(declaration, settings),
    registry,
    async reload() {
      tables = await readTables()
    },
    async stop() {
      await closeServer(server, 1_000)
      pool.close()
    },
  }
}

const file = readFileSync(process.argv[2] ?? '', 'utf8')
const { settings, check } = load(declaration, form, {
  file: { text: file },
  environment: process.env,
  readFile: path => readFileSync(path),
})
check()
if (isWorker) {
  process.exitCode = await serveAsWorker(
    share => start(settings, share),
    workerStopSignal().then(() => 0),
  )
  disconnectWorkers()
} else {
  const workers = await startWorkers<'schema'>({
    workers: settings.workers,
    poolSize: settings.connections,
    configuration: describeSettings(declaration, settings),
    admin: { host: '127.0.0.1', port: 0 },
    logger: pino({ level: 'silent' }),
  })
  process.on('SIGHUP', () => workers.reload('schema'))
  console.log(JSON.stringify([workers.address, workers.adminAddress]))
  await stopSignal()
  await workers.stop()
}
