/**
 * The commands of docs/tour.md, and the commands of other pages that an embedded installation can run, in order and
 * with the output that the pages show. `.ci/command-blocks.ts` lists them.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CommandBlock, commandBlocks, run } from '../.ci/command-blocks.ts'
import { findFreeRange } from '../embedded/ports.ts'
import { checkout } from '../embedded/settings.ts'
import { createHome, type Home } from './process.ts'
import { patternOf } from './shown-output.ts'

/** Commands that are not run: they start an installation, download a package, or need a cluster. */
const elsewhere = /^(make run$|MCP=|NODE_EXTRA_CA_CERTS=\S+ npx|kubectl )/

type Step = { command: string; shown: string }

/** A command continues after a backslash, and while a quote is open. */
function stepsOf({ lines }: CommandBlock): Step[] {
  const hasPrompts = lines.some(line => line.startsWith('$ '))
  const steps: Step[] = []
  let open = ''
  for (const line of lines) {
    const text = open + (open === '' && hasPrompts ? line.replace(/^\$ /, '') : line)
    const isCommand = open !== '' || !hasPrompts || line.startsWith('$ ')
    const last = steps.at(-1)
    if (!isCommand && last !== undefined) last.shown += `${line}\n`
    else if (/\\$/.test(text) || text.split("'").length % 2 === 0) open = `${text}\n`
    else {
      open = ''
      steps.push({ command: text, shown: '' })
    }
  }
  return steps.filter(({ command }) => command.trim() !== '' && !elsewhere.test(command))
}

/** One shell for all commands, so that variables and background processes remain. */
function openShell(folder: string, environment: NodeJS.ProcessEnv) {
  const loop = 'while IFS= read -r -d "" line <&3; do eval "$line" </dev/null 2>&1; printf "\\0%s\\0" "$?"; done'
  const shell = spawn('bash', ['-c', loop], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  let output = ''
  let received = Promise.withResolvers<void>()
  shell.stdout?.setEncoding('utf8').on('data', text => {
    output += text
    received.resolve()
  })
  const input = shell.stdio[3]
  return {
    async run(command: string): Promise<{ output: string; code: string }> {
      // The output of a background process would mix with the output of later commands.
      const text = command.replace(/ &$/, ' >/dev/null 2>&1 &')
      if (input !== null && input !== undefined && 'write' in input) input.write(`${text}\0`)
      for (;;) {
        const [shown, code, rest] = output.split('\0')
        if (shown !== undefined && code !== undefined && rest !== undefined) {
          output = ''
          return { output: shown, code }
        }
        received = Promise.withResolvers()
        await received.promise
      }
    },
    close: () => void shell.kill(),
  }
}

const soak = process.env.ESPALIER_SOAK !== undefined
const title = 'the commands of the tour, and of the pages on the API, connecting, branches and backups'

describe.skipIf(!soak)('commands of documents', () => {
  let home: Home
  let folder: string
  let shell: ReturnType<typeof openShell>
  let local: [shown: string, here: string][]
  beforeAll(async () => {
    home = await createHome()
    const { api, token } = await home.run()
    folder = await mkdtemp(join(tmpdir(), 'espalier-documents-'))
    await symlink(join(checkout, 'bin'), join(folder, 'bin'))
    const free = await findFreeRange('127.0.0.1', 2)
    const https = home.environment.ESPALIER_HTTPS_PORT ?? ''
    local = [
      ['http://127.0.0.1:8080', api],
      ['127.0.0.1:8443', `127.0.0.1:${https}`],
      ['127.0.0.1:3000', `127.0.0.1:${free.first}`],
      ['127.0.0.1:3001', `127.0.0.1:${free.last}`],
    ]
    shell = openShell(folder, {
      ...home.environment,
      HOME: folder,
      TMPDIR: process.env.TMPDIR ?? '/tmp',
      TOKEN: token,
      API: `${api}/managed/v1`,
      ESPALIER_REST_SERVER_PORT: String(free.first),
      PATH: `${join(checkout, 'node_modules', '.bin')}:${process.env.PATH}`,
    })
    await shell.run('make() { echo "$TOKEN"; }; espalier() { bin/espalier "$@"; }')
    // Makes an error of the API a failed command.
    await shell.run(
      'curl() { local fail=--fail-with-body; [[ $1 = -sf ]] && fail=; command curl --no-progress-meter $fail "$@"; }',
    )
  })
  afterAll(async () => {
    shell?.close()
    await home?.remove()
    await rm(folder, { recursive: true, force: true })
  })

  async function expectStep({ command, shown }: Step): Promise<void> {
    const here = local.reduce((text, [from, to]) => text.replaceAll(from, to), command)
    const pattern = patternOf(shown)
    const isRefused = shown.startsWith('psql: error')
    const deadline = Date.now() + 180_000
    for (;;) {
      const { output, code } = await shell.run(here)
      const isAsShown = (code === '0') !== isRefused && (shown === '' || pattern.test(output))
      // A service needs some seconds to read new tables, and a database to end an operation.
      const isTransient = /^curl .*(\/rest\/|-X (POST|PATCH|DELETE)|"kind")/.test(command)
      if (isAsShown) return
      if (!isTransient || Date.now() > deadline)
        expect({ command, code, output }).toEqual({ command, code: '0', output: shown })
      await new Promise(resolve => setTimeout(resolve, 1_000))
    }
  }
  const expectSuccess = async (command: string) => expectStep({ command, shown: '' })

  /** Commands for the variables that a page expects its reader to set, by file. */
  const before: Readonly<Record<string, readonly string[]>> = {
    'docs/api.md': [
      'command curl -s -X DELETE "$API/databases/$ID" -H "Authorization: Bearer $TOKEN" -H "Prefer: wait=60"',
    ],
    'docs/connect.md': [`ID=$(node -p 'JSON.parse(fs.readFileSync("shop.json")).id')`],
    'docs/backups.md': ['bin/espalier allow me shop', 'INCARNATION=1'],
  }
  const takesBackup = `BACKUP=$(curl -s $API/databases/$ID/backup -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -H 'Prefer: wait=60' -d '{"kind": "hot"}' | node -p 'JSON.parse(fs.readFileSync(0)).id')`
  const recreates = [
    'bin/espalier db create shop --allow-me --wait',
    `bin/espalier connect shop -- -qc "CREATE TABLE fruit AS SELECT name FROM (VALUES ('pear'), ('quince')) AS fruit (name)"`,
    `ID=$(bin/espalier db get shop --json | node -p 'JSON.parse(fs.readFileSync(0)).id')`,
  ]

  test(title, { timeout: 900_000 }, async () => {
    for (const { file, headings } of run.filter(({ test: path }) => path === 'e2e/commands.test.ts')) {
      for (const command of before[file] ?? []) await expectSuccess(command)
      const blocks = commandBlocks(await readFile(join(checkout, file), 'utf8'))
      for (const heading of headings ?? []) {
        if (heading === 'The REST service by itself') for (const command of recreates) await expectSuccess(command)
        if (heading === 'Verify a backup') await expectSuccess(takesBackup)
        for (const block of blocks.filter(one => one.heading === heading))
          for (const step of stepsOf(block)) await expectStep(step)
      }
    }
  })
})
