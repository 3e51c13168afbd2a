/** The complete tool server on a real Postgres, tested through MCP clients. */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { countTokens } from 'gpt-tokenizer'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { namesAt, sendRequest, until } from '../testing/client.ts'
import { freePort, startPostgres, type TestPostgres } from '../testing/postgres.ts'
import type { HttpSettings, McpSettings } from './configuration/types.ts'
import { addToken, addUser } from './credentials/administration.ts'
import { makeFolder, recordingLogger, settingsOf } from './credentials/testing/files.ts'
import { type McpService, serveMcpOverStdio, startMcp } from './index.ts'
import { databaseOf } from './testing/calls.ts'
import { at, modern, post, call as rpc } from './testing/rpc.ts'

const silent = pino({ level: 'silent' })
const folder = makeFolder()
let postgres: TestPostgres
let service: McpService
let token: string
let settings: McpSettings
let http: HttpSettings

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(
    `CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, born date);
     INSERT INTO people SELECT n, 'name ' || n, date '2000-01-01' + n FROM generate_series(1, 2000) n`,
  )
  const { tokenFile, userFile } = folder
  token = (await addToken(tokenFile, { note: 'a test', lifetimeMs: undefined, database: undefined }, Date.now())).token
  await addUser(userFile, 'alice', { password: 'correct horse' }, Date.now())
  http = {
    ...{ host: '127.0.0.1', port: 0, tls: undefined, allowedOrigins: [], trustedProxies: [] },
    authentication: settingsOf(folder),
  }
  settings = {
    http,
    databases: [databaseOf(postgres)],
    embedding: undefined,
    llm: [],
    knowledgebase: undefined,
    dataDirectory: folder.path,
    disabled: new Set(),
    limits: { resultTokens: 10_000, resultBytes: 8_388_608, requestBytes: 10_485_760 },
    sealingKey: randomBytes(32),
    logLevel: 'info',
    auditStatements: 'reads',
  }
  service = await startMcp({ settings, http, logger: silent })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
  folder.remove()
})

const url = () => new URL(`http://127.0.0.1:${service.address.port}/mcp/v1`)
const requestInit = () => ({ headers: { authorization: `Bearer ${token}` } })
const textOf = (result: unknown) => (result as { content: { text: string }[] }).content.map(({ text }) => text).join('')

test('clients of revisions with icons receive the icon as a data URI; clients of other revisions do not', async () => {
  const { port } = service.address
  const authorization = { Authorization: `Bearer ${token}` }
  const initialized = async (protocolVersion: string) => {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    const { body } = await post(port, rpc('initialize', params), authorization)
    return at(body, 'result', 'serverInfo', 'icons', 0, 'src')
  }
  const discovered = await modern(port, 'server/discover', {}, { headers: authorization })
  const key = 'io.modelcontextprotocol/serverInfo'
  const shown = [await initialized('2025-11-25'), at(discovered.body, 'result', '_meta', key, 'icons', 0, 'src')]
  const [drawing = ''] = shown.map(src => Buffer.from(String(src).split('base64,')[1] ?? '', 'base64').toString())
  expect(drawing).toMatch(/^<svg .*<\/svg>$/s)
  expect(new Set(shown).size).toBe(1)
  expect(drawing).not.toMatch(/script|href|url\(/)
  const listed = await modern(port, 'tools/list', {}, { headers: authorization })
  expect(JSON.stringify(listed.body)).not.toContain('icons')
  expect(await initialized('2025-06-18')).toBeUndefined()
})

test('the server is ready after a self-check has read its database through MCP', async () => {
  const port = await freePort()
  const away = { ...databaseOf(postgres), port }
  const started = await startMcp({ settings: { ...settings, databases: [away] }, http, logger: silent })
  const ready = (server: McpService) => sendRequest(server.address.port, '/ready/database')
  try {
    const first = await Promise.all([ready(started), ready(started)])
    expect(first.map(({ status }) => status)).toEqual([503, 503])
    expect(JSON.parse(first[0]?.text ?? '')).toMatchObject({
      status: 'not_ready',
      reason: expect.stringContaining('cannot read'),
    })
    started.setDatabases([databaseOf(postgres)])
    expect(await ready(started)).toMatchObject({ status: 200, text: '{"status":"ready"}' })
    // After the first success, readiness probes no longer read the database.
    started.setDatabases([away])
    expect((await ready(started)).status).toBe(200)
    expect((await sendRequest(started.address.port, '/ready/database', { method: 'POST' })).status).toBe(404)
  } finally {
    await started.stop()
  }
})

describe.each([
  [
    'the current client',
    async () => {
      const client = new ModernClient({ name: 'test', version: '1' })
      await client.connect(new ModernHttp(url(), { requestInit: requestInit() }))
      return client
    },
  ],
  [
    'the previous client',
    async () => {
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(url(), { requestInit: requestInit() }))
      return client
    },
  ],
])('%s', (_, connect) => {
  test('lists tools in few tokens, queries, returns pages, reads resources, and refuses writes', async () => {
    const client = await connect()
    try {
      const { tools } = await client.listTools()
      expect(countTokens(JSON.stringify(tools))).toBeLessThanOrEqual(4_000)
      expect(tools.map(({ name }) => name)).toContain('query_database')
      expect(tools.map(({ name }) => name)).not.toContain('authenticate_user')
      const call = async (name: string, args: Record<string, unknown>) => client.callTool({ name, arguments: args })
      const found = await call('query_database', { query: 'SELECT id, name, born FROM people ORDER BY id', limit: 2 })
      expect(textOf(found)).toMatch(/id\tname\tborn\n1\tname 1\t2000-01-02\n2\tname 2\t2000-01-03/)
      expect(textOf(found)).toContain('offset=2')
      const [, cursor] = /cursor="(\S+)"/.exec(textOf(found)) ?? []
      const next = await call('query_database', { query: 'SELECT id, name, born FROM people ORDER BY id', cursor })
      expect(textOf(next)).toContain('\n3\tname 3\t')
      const all = await call('query_database', { query: 'SELECT * FROM people', limit: 1000 })
      expect(countTokens(textOf(all))).toBeLessThanOrEqual(10_000)
      expect(await call('query_database', { query: 'DELETE FROM people' })).toMatchObject({ isError: true })
      expect(textOf(await call('get_schema_info', {}))).toContain('people')
      expect(textOf(await call('count_rows', { table: 'people' }))).toContain('2000')
      expect(textOf(await call('execute_explain', { query: 'SELECT * FROM people' }))).toContain('Seq Scan')
      expect(textOf(await call('check_health', {}))).toContain('connections')
      const { contents } = await client.readResource({ uri: 'pg://system_info' })
      expect(contents).toMatchObject([{ uri: 'pg://system_info', mimeType: 'application/json' }])
      const { prompts } = await client.listPrompts()
      expect(prompts.map(({ name }) => name)).toContain('explore-database')
    } finally {
      await client.close()
    }
    expect(await postgres.run('SELECT count(*)::int AS n FROM people')).toMatchObject({ rows: [{ n: 2000 }] })
  })
})

test('opens minimum connections before the first call, and closes them when their database is removed', async () => {
  const count = async (database: string) => {
    const text = `SELECT count(*)::int FROM pg_stat_activity WHERE datname = '${database}' AND application_name = 'espalier-mcp'`
    return (await postgres.run(text)).rows[0].count
  }
  await postgres.run('CREATE DATABASE kept')
  const times = { poolMinimum: 2, poolIdleMs: 1_000, poolCheckMs: 50 }
  const idleDatabase = databaseOf(postgres, { name: 'kept', database: 'kept', ...times })
  const started = await startMcp({ settings: { ...settings, databases: [idleDatabase] }, http, logger: silent })
  try {
    await expect.poll(() => count('kept'), { timeout: 5_000 }).toBe(2)
    started.setDatabases([databaseOf(postgres)])
    await expect.poll(() => count('kept'), { timeout: 5_000 }).toBe(0)
  } finally {
    await started.stop()
  }
})

test('an error at the start names the key to fix', async () => {
  const start = (changed: Partial<HttpSettings>) =>
    startMcp({ settings, http: { ...http, ...changed }, logger: silent }).then(started => started.stop())
  await expect(start({ port: service.address.port })).rejects.toThrow(
    `http.address: cannot listen on port ${service.address.port} of 127.0.0.1: another program uses this port`,
  )
  const missing = join(folder.path, 'gone.pem')
  await expect(start({ tls: { certificateFile: missing, keyFile: missing, chainFile: undefined } })).rejects.toThrow(
    `http.tls.cert_file: ${missing} cannot be read: there is no such file`,
  )
})

test('serves a renewed certificate without a restart', async () => {
  const authority = createAuthority()
  const tls = {
    certificateFile: join(folder.path, 'tls.crt'),
    keyFile: join(folder.path, 'tls.key'),
    chainFile: join(folder.path, 'chain.pem'),
  }
  const issue = (name: string) => {
    const { cert, key } = issueServerCertificate(authority, { dnsNames: [name] })
    writeFileSync(tls.certificateFile, cert)
    writeFileSync(tls.keyFile, key)
  }
  issue('first.test')
  writeFileSync(tls.chainFile, authority.cert)
  const started = await startMcp({ settings, http: { ...http, tls }, logger: silent, certificateIntervalMs: 20 })
  try {
    expect(await namesAt(started.address.port)).toBe('DNS:first.test')
    issue('second.test')
    await until(async () => (await namesAt(started.address.port)) === 'DNS:second.test')
  } finally {
    await started.stop()
  }
})

test('the log contains the statements that the settings allow', async () => {
  const { logger, lines } = recordingLogger()
  const started = await startMcp({ settings: { ...settings, auditStatements: 'none' }, http, logger })
  try {
    const params = { name: 'query_database', arguments: { query: "SELECT 'secret'" } }
    await sendRequest(started.address.port, '/mcp/v1', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    })
    expect(lines.join()).toContain('"outcome":"done"')
    expect(lines.join()).not.toContain('secret')
  } finally {
    await started.stop()
  }
})

test('a user logs in and receives a session token, which the helper API accepts too', async () => {
  const { port } = service.address
  const call = (body: object, headers: Record<string, string> = {}) =>
    sendRequest(port, '/mcp/v1', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
    })
  expect((await call({ method: 'tools/list' })).status).toBe(401)
  const args = { username: 'alice', password: 'correct horse' }
  const login = await call({ method: 'tools/call', params: { name: 'authenticate_user', arguments: args } })
  const { session_token } = JSON.parse(textOf(JSON.parse(login.text).result))
  const headers = { authorization: `Bearer ${session_token}` }
  expect(JSON.parse((await call({ method: 'tools/list' }, headers)).text).result.tools.length).toBeGreaterThan(5)
  const databases = await sendRequest(port, '/api/databases', { headers })
  expect(JSON.parse(databases.text)).toMatchObject({ databases: [{ name: settings.databases[0]?.name }] })
  const made = await sendRequest(port, '/api/conversations', {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({
      provider: 'openai',
      model: 'm',
      connection: 'main',
      messages: [{ role: 'user', content: 'How many people?' }],
    }),
  })
  expect(made.status).toBe(201)
  expect((await sendRequest(port, '/health')).status).toBe(200)
})

test('over standard input and output the server answers each line with one line, and stops at the end of input', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()]
  let logged = ''
  output.setEncoding('utf8').on('data', chunk => {
    logged += chunk
  })
  const over = serveMcpOverStdio({ settings, logger: silent, input, output })
  const write = (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'test', version: '1' }
  write({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } })
  write({ method: 'notifications/initialized' })
  write({ id: 2, method: 'tools/call', params: { name: 'query_database', arguments: { query: 'SELECT 41 + 1 AS n' } } })
  input.end()
  await over
  const [first, second, ...more] = logged
    .trim()
    .split('\n')
    .map(text => JSON.parse(text))
  expect(first).toMatchObject({ id: 1, result: { protocolVersion: '2025-11-25' } })
  expect(textOf(second.result)).toContain('42')
  expect(more).toEqual([])
})
