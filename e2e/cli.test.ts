/** The command line as its documents show it: every command of the README's tour and of docs/cli.md, in order. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkout } from '../embedded/settings.ts'
import { createHome, type Home } from './process.ts'
import { patternOf } from './shown-output.ts'

let home: Home
/** A folder with `bin`, like a checkout, and without `.espalier`. */
let folder: string
beforeAll(async () => {
  home = await createHome()
  folder = await mkdtemp(join(tmpdir(), 'espalier-cli-'))
  await symlink(join(checkout, 'bin'), join(folder, 'bin'))
  await home.run()
})
afterAll(async () => {
  await home?.remove()
  await rm(folder, { recursive: true, force: true })
})

/** Each command of a document's `console` blocks, with the output that the document shows. */
async function commandsOf(path: string): Promise<{ command: string; shown: string }[]> {
  const text = await readFile(join(checkout, path), 'utf8')
  const blocks = [...text.matchAll(/^```console\n([\s\S]*?)^```/gm)].map(([, block = '']) => block)
  return blocks
    .flatMap(block => block.split(/^\$ /m).slice(1))
    .map(part => {
      const [command = '', ...lines] = part.split('\n')
      return { command, shown: lines.join('\n').trimEnd() }
    })
}

async function run(command: string) {
  const node = join(checkout, 'node_modules', '.bin')
  const config = { XDG_CONFIG_HOME: join(folder, 'config'), XDG_CACHE_HOME: join(folder, 'cache') }
  const env = { ...home.environment, ...config, PATH: `${node}:${process.env.PATH}` }
  const child = spawn('bash', ['-c', command], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', text => {
    output.out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    output.err += text
  })
  const [code] = await once(child, 'close')
  return { code, ...output }
}

async function expectSuccess(path: string, least: number): Promise<void> {
  const commands = await commandsOf(path)
  expect(commands.length).toBeGreaterThanOrEqual(least)
  for (const { command, shown } of commands) {
    const { code, out, err } = await run(command)
    expect({ command, code, err: code === 0 ? '' : err }).toEqual({ command, code: 0, err: '' })
    if (shown !== '') expect(out, command).toMatch(patternOf(shown))
  }
}

const timeout = 240_000
test("the commands of the README's tour succeed, with the output that it shows", { timeout }, () =>
  expectSuccess('README.md', 4),
)

const all = 'every command of docs/cli.md succeeds, with the output that it shows'
if (process.env.ESPALIER_SOAK === undefined) test.skip(all)
else test(all, { timeout }, () => expectSuccess('docs/cli.md', 15))
