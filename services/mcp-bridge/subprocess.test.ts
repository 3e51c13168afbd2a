/** The tool server's process: a process that restarts, a process that does not, and a server without sessions. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../testing/client.ts'
import { readBridgeConfiguration } from './configuration.ts'
import { type BridgeParts, startTestBridge, type TestBridge } from './testing/bridge.ts'

const call = (id: number | string, name: string, args: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args },
})
const resultOf = (text: string) => JSON.parse(JSON.parse(text).result.content[0].text)

const started: TestBridge[] = []
const start = async (parts: BridgeParts) => {
  const bridge = await startTestBridge(parts)
  started.push(bridge)
  return bridge
}
afterEach(async () => {
  await Promise.all(started.splice(0).map(bridge => bridge.stop()))
})

test('answers requests that run when the tool server ends, and continues the session with the next process', async () => {
  const bridge = await start({ mcp_server: { restart_delay: '1500ms' } })
  const headers = { ...(await bridge.session()), Accept: 'application/json' }
  const before = resultOf((await bridge.post(call(1, 'whoami'), headers)).text)
  await bridge.post({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'a:b' } }, headers)
  const inFlight = bridge.post(call(5, 'slow', { ms: 5_000 }), headers)
  const crash = bridge.post(call(6, 'crash'), headers)
  const errors = (await Promise.all([inFlight, crash])).map(({ text }) => JSON.parse(text))
  expect(errors.map(({ id, error }) => [id, error.code])).toEqual([
    [5, -32_603],
    [6, -32_603],
  ])
  expect((await bridge.post(call(1, 'whoami'), headers)).status).toBe(503)
  expect((await bridge.send('/ready')).text).toBe('{"status":"not_ready","reason":"mcp_subprocess_not_running"}')
  expect((await bridge.send('/health')).status).toBe(200)
  await until(async () => (await bridge.send('/ready')).status === 200)
  const after = resultOf((await bridge.post(call(1, 'whoami'), headers)).text)
  expect(after.pid).not.toBe(before.pid)
  expect(after.sessions).toEqual(['shared', 's1'])
})

test('stops restarting a tool server that keeps ending', async () => {
  const bridge = await start({ mcp_server: { max_restarts: 1 } })
  for (const restarts of [0, 1]) {
    await bridge.post(call(restarts, 'crash'))
    await until(async () => (await bridge.send('/ready')).status === (restarts === 0 ? 200 : 503))
  }
  const health = await bridge.send('/health')
  expect([health.status, JSON.parse(health.text).status]).toEqual([503, 'unhealthy'])
  expect((await bridge.post(call(1, 'whoami'))).status).toBe(503)
})

describe('a server that does not distinguish sessions', () => {
  test('is initialized once, and receives no connection fields', async () => {
    const bridge = await start({ args: ['plain'], mcp_server: { env: { BRIDGE_SECRET: 'given' } } })
    const sessions = await Promise.all([1, 2, 3].map(() => bridge.session({}, '2025-06-18')))
    const whoami = resultOf((await bridge.post(call(1, 'whoami'), sessions[2])).text)
    expect(whoami).toMatchObject({ sessions: ['shared'], meta: {}, secret: 'given' })
  })

  test('answers each session, and cannot send requests', async () => {
    const bridge = await start({ args: ['plain'] })
    const sessions = await Promise.all([1, 2, 3, 4].map(() => bridge.session()))
    const indexes = Array.from({ length: 40 }, (_, index) => index)
    const answers = await Promise.all(
      indexes.map(index => bridge.post(call(1, 'slow', { index, ms: index % 9 }), sessions[index % 4])),
    )
    expect(answers.map(({ text }) => resultOf(text).index)).toEqual(indexes)
    expect(resultOf((await bridge.post(call(1, 'ask'), sessions[0])).text).code).toBe(-32_601)
  })

  test('notifies subscribed sessions of a resource, with one subscription of the bridge', async () => {
    const bridge = await start({ args: ['plain'] })
    const [one, other] = await Promise.all([bridge.session(), bridge.session()])
    const subscribe = { jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'a:b' } }
    await bridge.post(subscribe, one)
    const params = { uri: 'a:b' }
    await bridge.post(call(1, 'announce', { method: 'notifications/resources/updated', params }), other)
    const receivedBy = async (headers: Record<string, string>) => {
      const stream = bridge.send('/mcp', { headers: { ...headers, Accept: 'text/event-stream' } })
      await bridge.send('/mcp', { method: 'DELETE', headers })
      return (await stream).text
    }
    expect(await receivedBy(one)).toContain('a:b')
    expect(await receivedBy(other)).not.toContain('a:b')
  })

  test('needs mcp:write for calls of its tools, unless they are marked read-only', async () => {
    const valid_tokens = [
      { name: 'reader', token: 'a-token-that-reads', scopes: ['mcp:read'] },
      'a-token-that-writes-too',
    ]
    const bridge = await start({ args: ['plain'], server: { auth: { type: 'bearer', bearer: { valid_tokens } } } })
    const reader = { Authorization: 'Bearer a-token-that-reads' }
    const writer = { Authorization: 'Bearer a-token-that-writes-too' }
    expect((await bridge.post(call(1, 'whoami'), reader)).status).toBe(200)
    expect((await bridge.post(call(1, 'write'), writer)).status).toBe(200)
    const refused = await bridge.post(call(1, 'write'), reader)
    expect(refused.status).toBe(403)
    expect(refused.headers['www-authenticate']).toBe('Bearer error="insufficient_scope", scope="mcp:write"')
  })

  test('serves older revisions and 2026-07-28, with one process each', async () => {
    const bridge = await start({ args: ['plain'] })
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'server/discover' }
    const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover', params: { _meta: meta } }
    const modern = JSON.parse((await bridge.post(discover, headers)).text).result.pid
    expect(resultOf((await bridge.post(call(1, 'whoami'))).text).pid).not.toBe(modern)
  })
})

describe('with tokens', () => {
  const sha256 = createHash('sha256').update('the-right-token-here').digest('hex')
  const auth = { type: 'bearer', bearer: { valid_tokens: [{ name: 'ci', sha256 }, 'another-right-token'] } }

  test.each([
    ['none', undefined],
    ['a wrong token', 'Bearer the-wrong-token-here'],
    ['another scheme', 'Basic dGhlOnJpZ2h0'],
    ['an empty token', 'Bearer '],
  ])('%s causes a 401', async (_, authorization) => {
    const bridge = await start({ server: { auth } })
    const answer = await bridge.post(
      call(1, 'whoami'),
      authorization === undefined ? {} : { Authorization: authorization },
    )
    expect([answer.status, typeof JSON.parse(answer.text).error]).toEqual([401, 'string'])
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/)
    expect((await bridge.send('/health')).status).toBe(200)
  })

  test('a session belongs to the token that created it', async () => {
    const bridge = await start({ server: { auth } })
    const headers = await bridge.session({ Authorization: 'Bearer the-right-token-here' })
    expect((await bridge.post(call(1, 'whoami'), headers)).status).toBe(200)
    const stolen = { ...headers, Authorization: 'Bearer another-right-token' }
    expect((await bridge.post(call(1, 'whoami'), stolen)).status).toBe(404)
  })
})

test('an unused session expires', async () => {
  const bridge = await start({ session: { timeout: '200ms', cleanup_interval: '50ms' } })
  const headers = await bridge.session()
  expect((await bridge.post(call(1, 'whoami'), headers)).status).toBe(200)
  await new Promise(resolve => setTimeout(resolve, 350))
  expect((await bridge.post(call(1, 'whoami'), headers)).status).toBe(404)
})

describe('the configuration', () => {
  const variable = (_: string, name: string) => `$\{${name}}`
  const read = (text: string, environment = {}) => {
    const path = join(mkdtempSync(join(tmpdir(), 'espalier-bridge-')), 'bridge.yaml')
    writeFileSync(path, text)
    try {
      return readBridgeConfiguration(path, environment)
    } finally {
      rmSync(join(path, '..'), { recursive: true })
    }
  }
  const least = 'server: { auth: { type: none } }\nmcp_server: { command: tool }\n'

  const federated = `server: { public_url: "https://b.example", auth: { type: oauth } }
mcp_server: { command: tool }
oauth_server:
  enabled: true
  mode: federated
  allow_dynamic_registration: false
  allow_client_id_metadata: false
  federated:
    upstream_issuer: https://i.example
    client_id: c
`

  test('has defaults for all optional keys', () => {
    const settings = read(least)
    expect(settings).toMatchObject({ host: '127.0.0.1', port: 8080, maximumBodyBytes: 10_485_760 })
    expect(settings.subprocess).toMatchObject({ maximumRestarts: 5, restartDelayMs: 5_000 })
    expect(settings.session).toMatchObject({ timeoutMs: 1_800_000 })
    const { oauth } = read(`${federated}    allowed_domains: []`)
    expect(oauth?.login).toMatchObject({ provider: { allowedDomains: [] } })
  })

  test('accepts a state in Postgres with several passwords, keys in the state, and peers', () => {
    const secret = 's'.repeat(32)
    const more = `  state: "postgresql://mcp_state@db.internal/espalier"
  state_password: [newest, older]
  signing: { in_state: true, secret: ${secret} }
`
    const { oauth, peer } = read(
      federated.replace('auth:', `peer: { address: "10.0.0.7:8090", secret: ${secret} }, auth:`) + more,
    )
    expect(oauth?.state).toMatchObject({ kind: 'postgres', address: { user: 'mcp_state', password: 'newest\nolder' } })
    expect(oauth?.signing).toEqual({ kind: 'state', secret })
    expect(peer).toEqual({ address: { host: '10.0.0.7', port: 8090 }, secret })
    expect(() => read(`${federated}  signing: { in_state: true }`)).toThrow(/signing\.secret .* is required with/)
    expect(() => read(`${federated}  state_password: x`)).toThrow(/state_password .* Postgres/)
    expect(() => read(federated.replace('auth:', 'peer: { address: "h:1" }, auth:'))).toThrow(/peer\.secret/)
  })

  test.each([
    ['server: {}\nmcp_server: { command: tool }', /^server\.auth\.type \(default\) must be given$/],
    [`${least}session: { timeout: soon }`, /^session\.timeout \(.*bridge\.yaml, line 3\) must be a time like 500ms/],
    [`${least}session: { timeout: 5 }`, /^session\.timeout .* must be a time like/],
    [`${least}session: { max_sessions: 0 }`, /^session\.max_sessions .* must be a whole number from 1 to 1000000$/],
    [`${least}log: { level: loud }`, /^log\.level .* must be one of "debug", "info", "warn", "error", "silent"$/],
    [`${least}sesion: {}`, /^sesion \(.*, line 3\) is not a key; the nearest one is session$/],
    [
      `${least}oauth_server: { builtin: { users: [{ username: a b, pasword_hash: x }] } }`,
      /^oauth_server\.builtin\.users\[0\]\.pasword_hash .* is not a key; the nearest one is oauth_server\.builtin\.users\[0\]\.password_hash\n.*users\[0\]\.username .* must be 1 to 128 characters.*\n.*users\[0\]\.password_hash \(default\) must be given$/,
    ],
    [
      'server: { auth: { type: none, bearer: { valid_tokens: [a-token-of-16-characters] } } }\nmcp_server: { command: tool }',
      /^server\.auth\.bearer\.valid_tokens .* is only for server\.auth\.type: bearer or oauth$/,
    ],
    [
      'server: { auth: { type: bearer }, tls: { cert_file: x } }\nmcp_server: { command: tool }',
      /^server\.tls\.cert_file .* \(ENOENT\)\nserver\.tls\.key_file .* together .*\nserver\.auth\.bearer\.valid_tokens .* is required with/,
    ],
    [
      'server: { auth: { type: none } }\nmcp_server: { command: "%TOOL%" }'.replace(/%(\w+)%/, variable),
      /^mcp_server\.command .* needs the environment variable TOOL, which is not set/,
    ],
    [
      'server: { auth: { type: oauth } }\nmcp_server: { command: tool }',
      /^server\.auth\.type .* oauth_server\.enabled/,
    ],
    ['server: { auth: { type: none } }\nmcp_server: { command: tool }\noauth_server: { enabled: true }', /public_url/],
    [
      `${least}oauth_server: { federated: { client_secret: "" } }`,
      /^oauth_server\.federated\.client_secret .* must not be empty$/,
    ],
    [
      `${federated}    allowed_domains: "${variable('', 'EMPTY')}"`,
      /^oauth_server\.federated\.allowed_domains \(.*line 11\) must have an entry/,
    ],
    [
      `${federated}    allowed_domains: ["${variable('', 'EMPTY')}", " "]`,
      /allowed_domains .* must have an entry, or be \[\]$/,
    ],
    [
      `${federated}    allowed_domains:\n#     - a.example`,
      /^oauth_server\.federated\.allowed_domains .* must have a value$/,
    ],
    [
      `${federated}    client_id: ""`.replace('client_id: c', 'scopes: [a]'),
      /^oauth_server\.federated\.client_id .* must be 1 to 255 .*$/,
    ],
    [
      `${least}oauth_server: { clients: [{ client_id: a, client_secret_sha256: }] }`,
      /^oauth_server\.clients\[0\]\.client_secret_sha256 .* must have a value$/,
    ],
    [
      `${least}oauth_server: { clients: [{ client_id: }] }`,
      /^oauth_server\.clients\[0\]\.client_id .* must have a value$/,
    ],
    [`${least}session:`, /^session .* must have a value$/],
    ['server: { auth: { type: none }, tls: }\nmcp_server: { command: tool }', /^server\.tls .* must have a value\n/],
    [
      'server: { auth: { type: none }, tls: {} }\nmcp_server: { command: tool }',
      /^server\.tls\.cert_file .*\nserver\.tls\.key_file .* together/,
    ],
    [
      'server: { auth: { type: none }, tls: { cert_file: , key_file: } }\nmcp_server: { command: tool }',
      /^server\.tls\.cert_file .* must have a value\nserver\.tls\.key_file .* must have a value$/,
    ],
    ['a: [', /^the file .* is not YAML/],
  ])('is refused with its key, its position and the rule: %j', (text, problem) => {
    expect(() => read(text, { EMPTY: '' })).toThrow(problem)
  })

  test('reports a missing file by its name', () => {
    const path = join(tmpdir(), 'espalier-bridge-nowhere.yaml')
    expect(() => readBridgeConfiguration(path, {})).toThrow(`the configuration file ${path} cannot be read (ENOENT)`)
  })

  test('reads environment variables, and does not show their values', () => {
    const tokens = `["${variable('', 'T')}"]`
    const file = `server: { auth: { type: bearer, bearer: { valid_tokens: ${tokens} } } }\nmcp_server: { command: tool }`
    expect(read(file, { T: 'a-long-enough-token' }).authentication.type).toBe('bearer')
    expect(() => read(file, { T: 'short-secret' })).toThrow(/valid_tokens\[0\]/)
    expect(() => read(file, { T: 'short-secret' })).not.toThrow(/short-secret/)
  })
})
