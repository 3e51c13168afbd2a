/** How the command of Postgres's images starts and stops programs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const launcher = fileURLToPath(new URL('espalier.sh', import.meta.url))

/** The launcher with this program instead of Node, after it has printed that it runs. */
async function launch(node: string, args: string[]): Promise<{ child: ChildProcess; line: string }> {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-launcher-'))
  writeFileSync(join(directory, 'node'), `#!/bin/sh\n${node}`, { mode: 0o755 })
  const child = spawn(launcher, args, {
    env: { PATH: `${directory}${delimiter}${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
    rmSync(directory, { recursive: true })
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  return { child, line }
}

const agent = ['instance', 'agent', '--id', 'a name with spaces']

test.each(['SIGTERM', 'SIGINT'] as const)('the agent gets %s, and its exit code is passed on', async signal => {
  const { child, line } = await launch(`trap 'exit 7' TERM; echo "$3 $5"; while :; do sleep 0.05; done`, agent)
  expect(line).toBe('agent a name with spaces')
  child.kill(signal)
  expect(await once(child, 'exit')).toEqual([7, null])
})

test('an agent without a signal handler yet ends at once', async () => {
  const { child } = await launch('echo starting; exec sleep 60', agent)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([143, null])
})

test('an agent that ignores the signal ends after some seconds', async () => {
  const { child } = await launch(`trap '' TERM INT; echo deaf; while :; do sleep 0.1; done`, agent)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([137, null])
}, 30_000)

test("the agent's own exit code is passed on", async () => {
  const { child } = await launch('echo "$1"; exit 3', agent)
  expect(await once(child, 'exit')).toEqual([3, null])
})

test('every other program replaces the launcher', async () => {
  const { child, line } = await launch('echo "$$ $2 $3"', ['instance', 'prepare'])
  expect(line).toBe(`${child.pid} instance prepare`)
})

test('the launcher installs signal handlers first, because the kernel drops signals to process 1 that have no handler', () => {
  const lines = readFileSync(new URL('espalier.sh', import.meta.url), 'utf8').split('\n')
  expect(lines.find(line => !line.startsWith('#'))).toBe("trap 'exit 143' TERM INT")
})
