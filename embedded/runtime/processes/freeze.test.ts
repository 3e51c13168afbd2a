import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { mountDisk } from '../testing/disk.ts'
import { temporaryDirectory, until } from '../testing/runtime.ts'
import { killTrees } from './end.ts'
import { freezeTrees } from './freeze.ts'
import { descendantsOf, isStopped, type ProcessIdentity, readProcess, readProcesses, signal } from './table.ts'

const canFreezeDisks = process.getuid?.() === 0 && existsSync('/dev/loop-control')

const identity = (child: ChildProcess): ProcessIdentity => readProcess(child.pid ?? 0) ?? { pid: 0, startTime: '' }

/**
 * Starts a process with three children in separate sessions. All of them append to one file continuously.
 * @param other the file of the last child, if it is another file
 */
async function family(file: string, other = file): Promise<ProcessIdentity> {
  const write = (to: string) =>
    `const fs = require('node:fs'); setInterval(() => fs.appendFileSync(${JSON.stringify(to)}, 'x'.repeat(1000)), 1)`
  const source = `
    for (const write of ${JSON.stringify([write(file), write(file), write(other)])}) {
      require('node:child_process').spawn(process.execPath, ['-e', write], { detached: true, stdio: 'ignore' })
    }
    ${write(file)}`
  const root = identity(spawn(process.execPath, ['-e', source], { stdio: 'ignore' }))
  onTestFinished(() => killTrees([root]))
  await until(() => descendantsOf(readProcesses(), [root.pid]).length === 3 && existsSync(file) && existsSync(other))
  return root
}

test('a frozen process tree writes nothing, and continues afterwards', async () => {
  const file = join(temporaryDirectory(), 'out')
  const root = await family(file)
  const freeze = await freezeTrees([root], 10_000)
  expect(freeze.processes).toBe(4)
  const size = statSync(file).size
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(statSync(file).size).toBe(size)
  expect(freeze.broken).toBe(false)
  freeze.unfreeze()
  freeze.unfreeze()
  await until(() => statSync(file).size > size)
})

test.runIf(canFreezeDisks)(
  'a process that waits for the disk delays the other processes for less than a second',
  async () => {
    const mounted = mountDisk('ext4', '64M')
    const [file, other] = [join(temporaryDirectory(), 'out'), join(mounted, 'out')]
    const root = await family(file, other)

    let [longest, last, size] = [0, performance.now(), 0]
    const watch = setInterval(() => {
      const now = statSync(file).size
      if (now !== size) [longest, last, size] = [Math.max(longest, performance.now() - last), performance.now(), now]
    }, 5)
    let unfreezeTimer: NodeJS.Timeout | undefined
    // Registered before the freeze: if waiting fails, all processes must still be ended.
    onTestFinished(() => {
      clearTimeout(unfreezeTimer)
      clearInterval(watch)
      spawnSync('fsfreeze', ['-u', mounted])
    })
    execFileSync('fsfreeze', ['-f', mounted])
    await until(() => descendantsOf(readProcesses(), [root.pid]).some(({ state }) => state === 'D'))
    unfreezeTimer = setTimeout(() => execFileSync('fsfreeze', ['-u', mounted]), 1_600)
    const freeze = await freezeTrees([root], 10_000)
    clearInterval(watch)
    longest = Math.max(longest, performance.now() - last)
    expect(freeze.processes).toBe(4)
    expect(longest).toBeGreaterThan(200)
    expect(longest).toBeLessThan(1_000)
    freeze.unfreeze()
  },
)

test('the watchdog continues processes if no other code does, and reports it', async () => {
  const file = join(temporaryDirectory(), 'out')
  const root = await family(file)
  const freeze = await freezeTrees([root], 1000)
  const size = statSync(file).size
  await until(() => statSync(file).size > size)
  expect(freeze.broken).toBe(true)
  freeze.unfreeze()
})

test('a freeze that another process breaks is detected', async () => {
  const root = await family(join(temporaryDirectory(), 'out'))
  const freeze = await freezeTrees([root], 10_000)
  signal(root, 'SIGCONT')
  await until(() => !isStopped(root.pid))
  expect(freeze.broken).toBe(true)
  freeze.unfreeze()
})

test('an exit of the freezing process does not leave processes stopped', async () => {
  const file = join(temporaryDirectory(), 'out')
  const root = await family(file)
  const module = new URL('./freeze.ts', import.meta.url).href
  const source = `
    const { freezeTrees } = await import(${JSON.stringify(module)})
    await freezeTrees([${JSON.stringify(root)}], 60_000)
    process.exit(0)`
  const freezer = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: 'ignore' })
  const stopped = until(() => isStopped(root.pid))
  const [code] = await once(freezer, 'exit')
  await stopped.catch(() => {})
  expect(code).toBe(0)
  const size = statSync(file).size
  await until(() => statSync(file).size > size)
})

test('an empty set is frozen at once', async () => {
  const freeze = await freezeTrees([], 1000)
  expect([freeze.processes, freeze.broken]).toEqual([0, false])
  freeze.unfreeze()
})
