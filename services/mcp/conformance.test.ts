/**
 * Runs the official conformance suite of MCP against the tool server as `espalier mcp` starts it, and against the
 * bridge of `espalier mcp-bridge`. The server has a Postgres, and the prompts, resources and tools that the suite
 * expects. Runs every scenario of both sets of requirements, scored or not.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestBridge } from '../mcp-bridge/testing/bridge.ts'
import { until } from '../testing/client.ts'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { startMcp } from './index.ts'
import { productAdditions, productProgram, productSettings } from './testing/product.ts'

const program = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)

type ScenarioResult = { readonly scenario: string; readonly passed: number; readonly failed: number }

async function runConformance(
  url: string,
  requirements: string,
): Promise<{ verdicts: ScenarioResult[]; code: number | null }> {
  const child = spawn(process.execPath, [program, 'server', '--url', url, '--requirements', requirements], {
    cwd: tmpdir(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  const [code] = await once(child, 'close')
  const summary = text.slice(text.indexOf('=== SUMMARY ==='))
  const verdicts = [...summary.matchAll(/^. ([\w-]+): (\d+) passed, (\d+) failed/gmu)].map(
    ([, scenario = '', passed, failed]) => ({ scenario, passed: Number(passed), failed: Number(failed) }),
  )
  return { verdicts, code }
}

/**
 * The suite does not run the first scenario yet. The second scenario checks only a server that disconnects during a
 * call so that the client polls. The tool server does not do that.
 */
const withoutChecks = ['tasks-status-notifications', 'server-sse-polling']
/** Scenarios that the suite skips if the server has no sessions. */
const withoutSession = ['server-sse-multiple-streams', 'server-session-lifecycle']

/**
 * Without a session, a client of an older revision can receive no requests or notifications between its calls. Only the
 * bridge has sessions (docs/mcp.md).
 */
const ofSessions = [
  'elicitation-sep1034-defaults',
  'elicitation-sep1330-enums',
  'resources-subscribe',
  'resources-unsubscribe',
  'tools-call-elicitation',
  'tools-call-sampling',
  'tools-call-with-logging',
]

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('18')
})
afterAll(() => postgres?.stop())

const environment = () => ({
  ESPALIER_DB_HOST: '127.0.0.1',
  ESPALIER_DB_PORT: String(postgres.port),
  ESPALIER_DB_SSLMODE: 'disable',
})

type Judged = { readonly url: string; stop(): Promise<void> }

/** The tool server over HTTP. */
async function direct(): Promise<Judged> {
  const settings = productSettings({ ...environment(), ESPALIER_HTTP_ENABLED: 'true' })
  if (settings.http === undefined) throw new Error('the settings are those of HTTP')
  const logger = pino({ level: 'silent' })
  const { address, stop } = await startMcp({ settings, http: settings.http, logger, ...productAdditions(settings) })
  return { url: `http://127.0.0.1:${address.port}/mcp/v1`, stop }
}

/** The bridge, which has sessions, in front of the tool server over stdio. */
async function bridged(): Promise<Judged> {
  const bridge = await startTestBridge({ mcp_server: { args: [productProgram], env: environment() } })
  await until(async () => (await bridge.send('/ready')).status === 200)
  return { url: `${bridge.url}/mcp`, stop: bridge.stop }
}

/** Runs two at once, not four: the suite's timeouts are too short for a busy machine. */
describe.concurrent.each([
  ['by the tool server', direct, ofSessions, 60],
  ['through the bridge', bridged, [], 80],
] as const)('%s', (_, start, failing, legacyChecks) => {
  test.sequential.each([
    ['2026-07-28', 50, 195, []],
    ['2025-11-25', 33, legacyChecks, failing],
  ] as const)('every scenario of %s passes, except scenarios for which a session is missing', async (...run) => {
    const [requirements, scenarios, checks, failing] = run
    const { url, stop } = await start()
    const { verdicts, code } = await runConformance(url, requirements).finally(stop)
    expect(verdicts.flatMap(({ scenario, failed }) => (failed > 0 ? [scenario] : [])).sort()).toEqual(failing)
    const without = verdicts.filter(({ passed }) => passed === 0).map(({ scenario }) => scenario)
    const passedOver = failing.length > 0 ? [...withoutChecks, ...withoutSession] : withoutChecks
    expect(without.filter(scenario => !passedOver.includes(scenario))).toEqual([])
    expect(verdicts.length).toBe(scenarios)
    expect(verdicts.reduce((sum, { passed }) => sum + passed, 0)).toBeGreaterThanOrEqual(checks)
    expect(code).toBe(failing.length > 0 ? 1 : 0)
  })
})
