import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { until } from '../testing/runtime.ts'
import { killTrees, waitUntilEnded } from './end.ts'
import { findOwned } from './scan.ts'
import { descendantsOf, isAlive, isStopped, parseStat, readProcess, readProcesses, signal } from './table.ts'

const entry = (pid: number, parent: number) => ({ pid, parent, state: 'S', startTime: '1' })
const idle = 'setInterval(() => {}, 1000)'

describe('parseStat', () => {
  test('reads a command that contains spaces and parentheses', () => {
    const rest = Array.from({ length: 48 }, (_, index) => String(index)).join(' ')
    expect(parseStat(`77 (a) b (c)) S ${rest}`)).toEqual({ pid: 77, parent: 0, state: 'S', startTime: '18' })
  })
  test('refuses a line that is not a stat line', () => {
    expect(parseStat('')).toBeUndefined()
    expect(parseStat('12 (x) S')).toBeUndefined()
  })
  test('this process is alive and has the parent that the system reports', () => {
    const self = readProcess(process.pid)
    expect(self?.parent).toBe(process.ppid)
    expect(self && isAlive(self)).toBe(true)
    expect(self && isAlive({ ...self, startTime: '0' })).toBe(false)
  })
})

test('descendants are listed parents first, across generations, without the roots', () => {
  const table = [entry(5, 4), entry(2, 1), entry(3, 1), entry(4, 2), entry(9, 8)]
  expect(descendantsOf(table, [1]).map(found => found.pid)).toEqual([2, 3, 4, 5])
  expect(descendantsOf(table, [8]).map(found => found.pid)).toEqual([9])
})

test('a process and its orphans are found by a variable of their environment, and all are killed', async () => {
  const marker = `ESPALIER_TEST=${crypto.randomUUID()}`
  const [name = '', value = ''] = marker.split('=')
  const script = `
    const { spawn } = require('node:child_process')
    spawn(process.execPath, ['-e', ${JSON.stringify(idle)}], { detached: true, stdio: 'ignore' })
    ${idle}`
  const child = spawn(process.execPath, ['-e', script], { env: { [name]: value }, stdio: 'ignore' })
  await until(async () => (await findOwned({ marker, directories: [] })).length === 2)
  child.kill('SIGKILL')
  await once(child, 'exit')
  const orphans = await findOwned({ marker, directories: [] })
  expect(orphans).toHaveLength(1)
  expect(await findOwned({ marker: marker.slice(0, -1), directories: [] })).toEqual([])
  await killTrees(orphans)
  expect(await findOwned({ marker, directories: [] })).toEqual([])
})

test('killing ends the complete tree, and waiting reports whether it has ended', async () => {
  const script = `
    const { spawn } = require('node:child_process')
    process.on('SIGTERM', () => {})
    spawn(process.execPath, ['-e', ${JSON.stringify(idle)}], { detached: true, stdio: 'ignore' })
    ${idle}`
  const child = spawn(process.execPath, ['-e', script], { env: {}, stdio: 'ignore' })
  const pid = child.pid ?? 0
  await until(() => descendantsOf(readProcesses(), [pid]).length === 1)
  const self = readProcess(pid) ?? entry(pid, 0)
  const tree = [self, ...descendantsOf(readProcesses(), [pid])]
  expect(await waitUntilEnded(tree, 20)).toBe(false)
  await killTrees([self])
  expect(tree.some(isAlive)).toBe(false)
})

test('all threads of a stopped process are stopped, and the process can be continued', async () => {
  const child = spawn(process.execPath, ['-e', idle], { env: {}, stdio: 'ignore' })
  const self = readProcess(child.pid ?? 0) ?? entry(0, 0)
  expect(signal(self, 'SIGSTOP')).toBe(true)
  await until(() => isStopped(self.pid))
  signal(self, 'SIGCONT')
  await until(() => !isStopped(self.pid))
  await killTrees([self])
  expect(signal(self, 'SIGKILL')).toBe(false)
})
