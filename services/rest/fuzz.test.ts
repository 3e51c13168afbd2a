/**
 * Sends arbitrary HTTP input. The service always responds, never with an internal error, and afterwards every Postgres
 * connection is idle.
 */
import { Agent } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, sendRequest, until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { type FuzzedRequest, request, schema } from './testing/requests.ts'
import { jwtSecret, startService, type TestService, tokenOf } from './testing/service.ts'

let postgres: TestPostgres
let service: TestService
let token: string
const agent = new Agent({ keepAlive: true, maxSockets: 20 })

beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run(schema)
  service = await startService(postgres.uri('authenticator'), {
    'db-schemas': 'api, склад',
    'db-anon-role': 'anon',
    'db-pool': 6,
    'db-aggregates-enabled': true,
    'db-plan-enabled': true,
    // Reads always find a row.
    'db-tx-end': 'rollback-allow-override',
    'db-max-rows': 1_000,
    'jwt-secret': jwtSecret,
    'server-timing-enabled': true,
    'server-trace-header': 'X-Trace',
    // Features beyond PostgREST must be as robust as the other features.
    'batch-path': '/batch',
    'keyset-parameter': 'after',
    'ndjson-enabled': true,
    'openapi-3-1-enabled': true,
    'openapi-typescript-enabled': true,
    'log-refusals': true,
    'role-limits': '* rows=1000',
  })
  token = await tokenOf({ role: 'member', deep: { list: [1, null, 'ä'] } })
})
afterAll(async () => {
  agent.destroy()
  await service?.stop()
  await postgres?.stop()
})

/**
 * Errors that return 5xx, as in PostgREST, although the client's request causes them. Examples: one upsert contains a
 * row twice, a statement is too complex for Postgres, or a write affects a read-only view.
 */
const ofTheRequest = /^(21000|54...|55000)$/

function check({ status, headers, text }: Answer): void {
  const code = /error=(.*)$/.exec(String(headers['proxy-status'] ?? ''))?.[1] ?? ''
  expect(status >= 200 && (status < 500 || ofTheRequest.test(code)), `${status} ${code} ${text}`).toBe(true)
  const isJson = /^application\/(vnd\.pgrst\.(object|array)\+|openapi\+)?json/.test(
    String(headers['content-type'] ?? ''),
  )
  if (isJson && text !== '') JSON.parse(text)
  if (status >= 400 && status !== 431 && text !== '') {
    expect(Object.keys(JSON.parse(text)).sort()).toEqual(['code', 'details', 'hint', 'message'])
  }
}

/** Idle means: no request waits, and no connection is in use or in a transaction. */
async function expectRest(): Promise<void> {
  await until(async () => (await service.metric('rst_db_pool_waiting')) === 0)
  await until(
    async () => (await service.metric('rst_db_pool_open')) === (await service.metric('rst_db_pool_available')),
  )
  const states = await postgres.run(
    `SELECT state FROM pg_stat_activity WHERE usename = 'authenticator' AND state <> 'idle'`,
  )
  expect(states.rows).toEqual([])
  expect((await service.send('/authors?limit=1')).status).toBe(200)
  expect(service.log.filter(line => line.includes('RSTX00'))).toEqual([])
}

/** Commits inserts only. */
function prepared({ method, path, headers, body }: FuzzedRequest) {
  const list = Object.entries(headers).map(([name, text]) => {
    if (name === 'Authorization' && text === 'token') return [name, `Bearer ${token}`]
    if (name === 'Prefer' && method !== 'POST') return [name, text.replaceAll('tx=commit', 'tx=rollback')]
    return [name, text]
  })
  return { path, options: { method, headers: Object.fromEntries(list), ...(body === undefined ? {} : { body }) } }
}

test('the service answers any request without an internal error', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 20 }), async requests => {
      const answers = requests.map(prepared).map(({ path, options }) => sendRequest(service.port, path, options, agent))
      for (const answer of await Promise.all(answers)) check(answer)
    }),
    { numRuns: Number(process.env.ESPALIER_FUZZ_RUNS ?? 250) },
  )
  await expectRest()
})

const pieces = [
  ...['GET ', 'POST ', '/authors', '/rpc/add', '?id=eq.1', ' HTTP/1.1', ' HTTP/1.0', ' HTTP/9.9', '\r\n', '\n', ' '],
  ...[
    'Host: a',
    'Content-Length: 5',
    'Content-Length: -1',
    'Transfer-Encoding: chunked',
    '5\r\n{"a":\r\n',
    '0\r\n\r\n',
  ],
  ...['Expect: 100-continue', 'Expect: nonsense', 'Connection: upgrade', 'Upgrade: websocket', 'CONNECT ', 'OPTIONS *'],
  ...['\r\n\r\n', 'Connection: keep-alive', 'a:443', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '\r\nHost: a\r\n\r\n'],
]
const validBytes =
  'POST /books?select=id HTTP/1.1\r\nHost: a\r\nPrefer: tx=rollback\r\nContent-Length: 13\r\n\r\n{"title":"b"}'
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map(list => Buffer.from(list)),
  fc
    .array(
      fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...pieces) }, fc.string({ unit: 'binary', maxLength: 5 })),
      {
        maxLength: 14,
      },
    )
    .map(list => Buffer.from(list.join(''))),
  // A valid request, except for one changed byte or a missing end.
  fc
    .tuple(fc.nat(validBytes.length - 1), fc.nat(255), fc.option(fc.nat(validBytes.length)))
    .map(([at, byte, length]) => {
      const changed = Buffer.from(validBytes)
      changed[at] = byte
      return changed.subarray(0, length ?? validBytes.length)
    }),
)

/** After the client has sent everything, returns the bytes that it received until the server closed the connection. */
const exchange = (sent: Buffer): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(service.port, '127.0.0.1')
    let text = ''
    socket.setEncoding('latin1').on('data', chunk => {
      text += chunk
    })
    // A reset is also an acceptable response to invalid HTTP.
    socket.on('error', () => {}).once('close', () => resolve(text))
    socket.end(sent)
  })

test('the service answers or disconnects any bytes on the socket', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(bytes, { minLength: 1, maxLength: 20 }), async list => {
      for (const text of await Promise.all(list.map(exchange))) {
        const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => Number(status))
        expect(text === '' || text.startsWith('HTTP/1.1 ')).toBe(true)
        expect(statuses.filter(status => status >= 500)).toEqual([])
      }
    }),
    { numRuns: 100 },
  )
  await expectRest()
})

test('clients that disconnect at any time leave no Postgres connection in use', { timeout: 60_000 }, async () => {
  const turnCount = fc.integer({ min: 0, max: 12 })
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(request, turnCount), { minLength: 5, maxLength: 30 }), async list => {
      await Promise.all(
        list.map(([one, turns]) => {
          const leaving = new AbortController()
          const abortAfter = (remaining: number): unknown =>
            remaining === 0 ? leaving.abort() : setImmediate(abortAfter, remaining - 1)
          abortAfter(turns * turns)
          const { path, options } = prepared(one)
          return sendRequest(service.port, path, { ...options, signal: leaving.signal }, new Agent()).catch(() => {})
        }),
      )
    }),
    { numRuns: 40 },
  )
  await expectRest()
})
