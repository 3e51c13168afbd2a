/** How the command of Postgres's images starts what runs in them, and ends it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const launcher = fileURLToPath(new URL('espalier.sh', import.meta.url))

/** The launcher, with this in Node's place, once that has said that it runs. */
async function launch(node: string, args: string[]): Promise<{ child: ChildProcess; said: string }> {
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
  const [said] = await once(createInterface(child.stdout), 'line')
  return { child, said }
}

const agent = ['instance', 'agent', '--id', 'a name with spaces']

test.each(['SIGTERM', 'SIGINT'] as const)(
  'the agent is told to end by %s, and ends with what it says',
  async signal => {
    const { child, said } = await launch(`trap 'exit 7' TERM; echo "$3 $5"; while :; do sleep 0.05; done`, agent)
    expect(said).toBe('agent a name with spaces')
    child.kill(signal)
    expect(await once(child, 'exit')).toEqual([7, null])
  },
)

test('one that does not listen yet ends at once', async () => {
  const { child } = await launch('echo starting; exec sleep 60', agent)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([143, null])
})

test('one that does not listen at all ends after some seconds', async () => {
  const { child } = await launch(`trap '' TERM INT; echo deaf; while :; do sleep 0.1; done`, agent)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([137, null])
}, 30_000)

test('what it ends with by itself is passed on', async () => {
  const { child } = await launch('echo "$1"; exit 3', agent)
  expect(await once(child, 'exit')).toEqual([3, null])
})

test('everything else takes the place of the launcher', async () => {
  const { child, said } = await launch('echo "$$ $2 $3"', ['instance', 'prepare'])
  expect(said).toBe(`${child.pid} instance prepare`)
})

test('asks for signals before anything else: until then the kernel keeps them from a first process', () => {
  const lines = readFileSync(new URL('espalier.sh', import.meta.url), 'utf8').split('\n')
  expect(lines.find(line => !line.startsWith('#'))).toBe("trap 'exit 143' TERM INT")
})
