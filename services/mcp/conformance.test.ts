/** The suite of the protocol's own project, against the fixture: every scenario, scored or not, of both sets of requirements. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startTestBridge } from './bridge/testing/bridge.ts'
import { fixtureProgram, startFixture } from './testing/fixture-server.ts'

const program = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)

type Verdict = { readonly scenario: string; readonly passed: number; readonly failed: number }

async function judge(url: string, requirements: string): Promise<{ verdicts: Verdict[]; code: number | null }> {
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

/** The first the suite itself does not run yet; the second only looks whether a server hangs up in mid-call to be polled, which ours does not. */
const withoutChecks = ['tasks-status-notifications', 'server-sse-polling']

type Judged = { readonly url: string; stop(): Promise<void> }

/** The tool server's own endpoint. */
async function direct(): Promise<Judged> {
  const { port, stop } = await startFixture()
  return { url: `http://127.0.0.1:${port}/mcp/v1`, stop }
}

/** The bridge, which has sessions, before a tool server over stdio. */
async function bridged(): Promise<Judged> {
  const { url, stop } = await startTestBridge({ mcp_server: { args: [fixtureProgram] } })
  return { url: `${url}/mcp`, stop }
}

test.concurrent.each([
  ['2026-07-28', 'by the tool server', direct, 50, 195],
  ['2026-07-28', 'through the bridge', bridged, 50, 195],
  ['2025-11-25', 'through the bridge', bridged, 33, 80],
] as const)('every scenario of %s passes %s', async (requirements, _, start, scenarios, checks) => {
  const { url, stop } = await start()
  const { verdicts, code } = await judge(url, requirements).finally(stop)
  expect(verdicts.filter(({ failed }) => failed > 0)).toEqual([])
  const without = verdicts.filter(({ passed }) => passed === 0).map(({ scenario }) => scenario)
  expect(without.filter(scenario => !withoutChecks.includes(scenario))).toEqual([])
  expect(verdicts.length).toBe(scenarios)
  expect(verdicts.reduce((sum, { passed }) => sum + passed, 0)).toBeGreaterThanOrEqual(checks)
  expect(code).toBe(0)
})
