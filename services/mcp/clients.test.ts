/**
 * Tests real clients: the official SDKs of Python and Go, over HTTP, over stdio and through the bridge, in every
 * revision that they support. Each client lists, calls, gets a refusal, reads, receives a change, and cancels a call.
 * Also tests the inspector's command line, with one process per request.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestBridge, type TestBridge } from '../mcp-bridge/testing/bridge.ts'
import { bare, goProgram, type Program, pythonProgram } from '../testing/mcp-clients/programs.ts'
import { npmPackage } from '../testing/npm-package.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { readMcpSettings } from './configuration/index.ts'
import { addToken } from './credentials/administration.ts'
import { makeFolder } from './credentials/testing/files.ts'
import { type McpService, startMcp } from './index.ts'

const scratch = mkdtempSync(join(tmpdir(), 'espalier-mcp-clients-'))

/** Returns undefined if the inspector is not installed. */
function inspectorProgram(): Program | undefined {
  const folder = npmPackage('@modelcontextprotocol/inspector', '2.12.0')
  if (folder === undefined) return undefined
  const launcher = join(folder, 'clients/launcher/build/index.js')
  return { command: process.execPath, args: [launcher, '--cli', '--format', 'json'], env: { ...bare, HOME: scratch } }
}

const python = pythonProgram('client.py')
const inspector = inspectorProgram()
const go = goProgram('.', scratch)

let postgres: TestPostgres
let service: McpService
let bridge: TestBridge
let token: string
const folder = makeFolder()
const bridgeToken = 'a-token-of-the-bridge-0123456789'
const program = [process.execPath, fileURLToPath(new URL('../../bin/espalier.mjs', import.meta.url)), 'mcp'] as const
const environment = () => ({
  ...{ ESPALIER_DB_HOST: '127.0.0.1', ESPALIER_DB_PORT: String(postgres.port), ESPALIER_LOG: 'error' },
  // The clients find the cancelled statement in pg_stat_activity. They connect as a superuser, who sees every session.
  ESPALIER_DB_SHOW_SECRETS: 'true',
})

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(`CREATE TABLE fruit (name text); INSERT INTO fruit VALUES ('pear'), ('quince')`)
  const { tokenFile, userFile } = folder
  token = (await addToken(tokenFile, { note: 'a test', lifetimeMs: undefined, database: undefined }, Date.now())).token
  const flags = new Map<string, string | true>([
    ['http', true],
    ['addr', '127.0.0.1:0'],
    ['token-file', tokenFile],
    ['user-file', userFile],
  ])
  const settings = readMcpSettings({ file: undefined, environment: environment(), flags, readFile: () => Buffer.of() })
  if (settings.http === undefined) throw new Error('the settings have no HTTP server')
  service = await startMcp({ settings, http: settings.http, logger: pino({ level: 'silent' }) })
  const [command, ...args] = program
  bridge = await startTestBridge({
    server: { auth: { type: 'bearer', bearer: { valid_tokens: [bridgeToken] } } },
    mcp_server: { command, args, env: environment() },
  })
})
afterAll(async () => {
  await bridge?.stop()
  await service?.stop()
  await postgres?.stop()
  folder.remove()
  rmSync(scratch, { recursive: true, force: true })
})

const modes = [
  ['legacy', '2025-11-25'],
  ['auto', '2026-07-28'],
] as const

/**
 * Every endpoint for clients. /mcp/v1 has no sessions. So older clients receive no changes there, and the server
 * ignores their cancellations.
 */
const ways = () =>
  modes.flatMap(([mode]) => [
    {
      ...{ name: `http ${mode}`, url: `http://127.0.0.1:${service.address.port}/mcp/v1`, token },
      ...{ mode, subscribes: mode === 'auto' },
    },
    { name: `bridge ${mode}`, url: `${bridge.url}/mcp`, token: bridgeToken, mode, subscribes: true },
    { name: `stdio ${mode}`, command: program, env: environment(), mode, subscribes: true },
  ])

let tables = 0

/** Runs the program and returns its findings. It prints a line when it has subscribed, then JSON. */
async function found({ command, args, env }: Program): Promise<Record<string, unknown>[]> {
  const child = spawn(command, [...args, JSON.stringify(ways())], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  child.stderr.setEncoding('utf8').on('data', piece => {
    output += piece
  })
  const ended = once(child, 'close')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  if ((await lines.next()).value !== 'ready') throw new Error(output)
  // A subscription starts with the server's next check, so the test repeats the change.
  const changing = setInterval(() => void postgres.run(`CREATE TABLE made_${tables++} ()`), 500)
  try {
    const { value } = await lines.next()
    await ended
    return JSON.parse(value ?? 'null') ?? output
  } finally {
    clearInterval(changing)
    child.kill()
  }
}

async function runClient(by: Program): Promise<void> {
  const expected = ways().map(({ name, mode, subscribes }) => ({
    name,
    version: new Map(modes).get(mode),
    tools: expect.arrayContaining(['query_database', 'get_schema_info', 'read_resource']),
    text: expect.stringMatching(/^name\npear\nquince$/m),
    refused: true,
    resource: expect.stringContaining('"postgres'),
    unknown: expect.stringMatching(/./),
    ...(subscribes ? { updated: 'pg://schemas', cancelled: true } : {}),
  }))
  expect(await found(by)).toEqual(expected)
}

if (python === undefined) test.skip('clients in other languages: need the Python package mcp', () => {})
else test.concurrent('the client of Python', () => runClient(python), 60_000)

if (go === undefined)
  test.skip('clients in other languages: need the Go module github.com/modelcontextprotocol/go-sdk', () => {})
else test.concurrent('the client of Go', () => runClient(go), 60_000)

type Way = ReturnType<typeof ways>[number]

/** The inspector's answer to one request. */
async function inspected({ command, args, env }: Program, way: Way, question: readonly string[]): Promise<unknown> {
  const where =
    way.command === undefined
      ? ['--transport', 'http', '--server-url', way.url, '--header', `Authorization: Bearer ${way.token}`]
      : Object.entries(way.env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
  const target = way.command === undefined ? [] : ['--transport', 'stdio', ...way.command]
  const all = [...args, '--protocol-era', way.mode === 'auto' ? 'modern' : 'legacy', ...where, ...question, ...target]
  const child = spawn(command, all, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return child.exitCode === 0 ? JSON.parse(output) : errors
}

async function runInspector(by: Program): Promise<void> {
  const query = ['--method', 'tools/call', '--tool-name', 'query_database', '--tool-args-json']
  for (const way of ways()) {
    const [listed, called, read] = await Promise.all([
      // The option also reports schema problems of other clients as errors.
      inspected(by, way, ['--method', 'tools/list', '--strict']),
      inspected(by, way, [...query, JSON.stringify({ query: 'SELECT name FROM fruit ORDER BY name' })]),
      inspected(by, way, ['--method', 'resources/read', '--uri', 'pg://system_info']),
    ])
    expect([way.name, listed, called, read]).toMatchObject([
      way.name,
      { result: { tools: expect.arrayContaining([expect.objectContaining({ name: 'query_database' })]) } },
      { result: { content: [{ text: expect.stringMatching(/^name\npear\nquince$/m) }] } },
      { result: { contents: [{ uri: 'pg://system_info', text: expect.stringContaining('"postgres') }] } },
    ])
  }
}

if (inspector === undefined)
  test.skip('clients in other languages: need the npm package @modelcontextprotocol/inspector', () => {})
else test('the inspector', () => runInspector(inspector), 120_000)
