/**
 * Runs Schemathesis, which sends requests that the description allows and requests that it does not allow, and checks
 * the responses.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'

export type Finding = {
  operation: string
  check: string
  status: number
  message: string
  /** The headers that the fuzzer sent. */
  sent: Record<string, string>
}
/** `stopped`: why the run ended. `errors`: problems that prevented requests. */
type Outcome = { cases: number; operations: Set<string>; findings: Finding[]; stopped: string; errors: string[] }

const scenario = z.object({
  recorder: z.object({
    cases: z
      .record(
        z.string(),
        z.object({
          value: z.object({
            method: z.string(),
            path: z.string(),
            headers: z.record(z.string(), z.unknown()).nullish(),
          }),
        }),
      )
      .default({}),
    checks: z.record(z.string(), z.array(z.object({ name: z.string(), status: z.string() }))).default({}),
    interactions: z
      .record(
        z.string(),
        z.object({
          response: z.object({ status_code: z.int(), content: z.object({ $base64: z.string() }).nullish() }).nullish(),
        }),
      )
      .default({}),
  }),
})
const ended = z.object({ stop_reason: z.string() })

function readReport(text: string): Outcome {
  const outcome: Outcome = { cases: 0, operations: new Set(), findings: [], stopped: 'never', errors: [] }
  for (const line of text.split('\n').filter(Boolean)) {
    const [[event, payload] = ['', undefined]] = Object.entries(
      z.record(z.string(), z.unknown()).parse(JSON.parse(line)),
    )
    if (/Error|Interrupted/.test(event)) outcome.errors.push(JSON.stringify(payload).slice(0, 500))
    if (event === 'EngineFinished') outcome.stopped = ended.parse(payload).stop_reason
    if (event !== 'ScenarioFinished') continue
    const { cases, checks, interactions } = scenario.parse(payload).recorder
    for (const [id, { value }] of Object.entries(cases)) {
      const operation = `${value.method} ${value.path}`
      const sent = Object.fromEntries(
        Object.entries(value.headers ?? {}).map(([header, text]) => [header.toLowerCase(), String(text)]),
      )
      outcome.cases++
      outcome.operations.add(operation)
      const { status_code: status = 0, content } = interactions[id]?.response ?? {}
      const message = Buffer.from(content?.$base64 ?? '', 'base64').toString('utf8')
      for (const { name, status: judged } of checks[id] ?? [])
        if (judged === 'failure') outcome.findings.push({ operation, check: name, status, message, sent })
    }
  }
  return outcome
}

type Options = { library: string; url: string; token: string; seed: number; seconds: number }

/**
 * Runs every check, with positive and negative data, and with sequences of requests. `seconds`: the time limit, which
 * the run always uses up.
 */
export async function runSchemathesis({ library, url, token, seed, seconds }: Options): Promise<Outcome> {
  const scratch = mkdtempSync(join(tmpdir(), 'espalier-schemathesis-'))
  const report = join(scratch, 'report.ndjson')
  const commandLine = [
    ...['-m', 'schemathesis.cli', 'run', `${url}/managed/v1/openapi.json`, '--checks', 'all', '--continue-on-failure'],
    // The response of this operation ends only after minutes.
    ...['--exclude-operation-id', 'streamEvents'],
    ...['--seed', String(seed), '--max-time', String(seconds), '--request-timeout', '60'],
    ...['--header', `Authorization: Bearer ${token}`, '--no-color'],
    ...['--report', 'ndjson', '--report-ndjson-path', report, '--output-sanitize', 'false'],
  ]
  try {
    // The exit status reports findings, but the report contains them.
    await promisify(execFile)('python3', commandLine, {
      cwd: scratch,
      env: { PATH: process.env.PATH, HOME: scratch, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1' },
      maxBuffer: 64 * 1024 * 1024,
    }).catch(error => {
      if (error.code !== 1) throw error
    })
    return readReport(readFileSync(report, 'utf8'))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}
