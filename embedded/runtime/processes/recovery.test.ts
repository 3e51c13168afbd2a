/** kill -9 of the runtime at any moment: the next start ends old processes, then continues with the same data. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Pod } from '../../../cluster/index.ts'
import { installationHome } from '../../../operator/postgres/testing/install.ts'
import { spread } from '../../../operator/testing/soak.ts'
import { openLayout } from '../directories.ts'
import { openIdentity } from '../identity.ts'
import { connectPostgres } from '../testing/postgres.ts'
import {
  openTestStore,
  startTestRuntime,
  temporaryDirectory,
  testLogger,
  testOwner,
  until,
} from '../testing/runtime.ts'
import { killTrees } from './end.ts'
import { endLeftovers, parseRecord } from './leftovers.ts'
import { findOwned } from './scan.ts'
import { isAlive, isPostgres, type ProcessEntry, readProcess, signal } from './table.ts'

const fixture = new URL('../testing/recovery.ts', import.meta.url).pathname

type Started = { child: ChildProcess; line(prefix: string): Promise<string>; kill(): Promise<void> }

function start(directory: string, home: string): Started {
  const child = spawn(process.execPath, [fixture, directory, home], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', line => lines.push(line))
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  onTestFinished(kill)
  return {
    child,
    kill,
    async line(prefix) {
      await until(() => lines.some(line => line.startsWith(prefix)), 30_000, `line ${prefix}`)
      return lines.find(line => line.startsWith(prefix))?.slice(prefix.length + 1) ?? ''
    },
  }
}

/** Creates a directory. All its processes are killed at the end, also if the test fails. */
function makeDirectories(): { directory: string; home: string; owned(): Promise<ProcessEntry[]> } {
  const root = temporaryDirectory()
  chmodSync(root, 0o711)
  const directory = join(root, 'cluster')
  mkdirSync(directory, { mode: 0o711 })
  chmodSync(directory, 0o711)
  const owned = async () => {
    const runtime = join(directory, 'runtime')
    const marker = `ESPALIER_RUNTIME_ID=${openIdentity(runtime).runtimeId}`
    return findOwned({ marker, directories: [join(runtime, 'volumes')] })
  }
  onTestFinished(async () => killTrees(await owned()))
  return { directory, home: installationHome(testOwner()), owned }
}

async function query(status: Pod['status'], sql: string): Promise<unknown[]> {
  const client = await connectPostgres(status)
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

describe('after kill -9 of the runtime', () => {
  test('the old database process is ended and the database runs again with its data; a clean stop leaves nothing', async () => {
    const { directory, home, owned } = makeDirectories()
    const first = start(directory, home)
    const status: Pod['status'] = JSON.parse(await first.line('ready'))
    await query(status, 'CREATE TABLE kept AS SELECT 42 AS n')
    await first.kill()
    const remaining = await owned()
    expect(remaining.filter(entry => isPostgres(entry.pid)).length).toBeGreaterThan(3)
    // Stops one process, as an interrupted snapshot does.
    const [stopped] = remaining
    if (stopped) signal(stopped, 'SIGSTOP')

    const second = start(directory, home)
    await second.line('started')
    expect(remaining.some(isAlive)).toBe(false)
    const again: NonNullable<Pod['status']> = JSON.parse(await second.line('ready'))
    expect(await query(again, 'SELECT n FROM kept')).toEqual([{ n: 42 }])
    expect(again.containerStatuses?.[0]).toMatchObject({
      restartCount: 1,
      lastState: { terminated: { exitCode: 255, reason: 'Unknown' } },
    })
    second.child.kill('SIGTERM')
    const [code] = await once(second.child, 'exit')
    expect(code).toBe(0)
    expect(await owned()).toEqual([])
    const log = readdirSync(join(directory, 'runtime/logs/test/db-0'))
    expect(readFileSync(join(directory, 'runtime/logs/test/db-0', log[0] ?? ''), 'utf8')).toContain('shut down')
  })

  test('at any moment of a start, the next start succeeds', async () => {
    const { directory, home } = makeDirectories()
    for (const waitMs of spread([0, 20, 60, 150, 300, 500], 2)) {
      const next = start(directory, home)
      await next.line('started')
      await new Promise(resolve => setTimeout(resolve, waitMs))
      await next.kill()
    }
    const last = start(directory, home)
    const status: NonNullable<Pod['status']> = JSON.parse(await last.line('ready'))
    expect(await query(status, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    await last.kill()
  })
})

describe('endLeftovers', () => {
  test('finds processes without a record, ends those that ignore signals, and spares other processes', async () => {
    const directory = temporaryDirectory()
    const layout = openLayout(directory)
    const marker = `ESPALIER_RUNTIME_ID=${crypto.randomUUID()}`
    const [name = '', value = ''] = marker.split('=')
    const stubborn = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`
    const own = spawn(process.execPath, ['-e', stubborn], { env: { [name]: value }, stdio: 'ignore' })
    const foreign = spawn(process.execPath, ['-e', stubborn], {
      env: {},
      stdio: 'ignore',
      cwd: layout.locations[0].volumes,
    })
    const entries = [own, foreign].map(child => readProcess(child.pid ?? 0))
    onTestFinished(() => killTrees(entries.flatMap(entry => entry ?? [])))
    // A record with a reused pid, and a truncated record.
    const stale = { pid: foreign.pid, startTime: '1', boot: 'another', stopSignal: 'SIGTERM' }
    writeFileSync(join(layout.processes, '1.json'), JSON.stringify(stale))
    writeFileSync(join(layout.processes, '2.json'), '{"pid":')
    expect(await endLeftovers(layout, marker, testLogger)).toBe(1)
    expect(entries.map(entry => entry !== undefined && isAlive(entry))).toEqual([false, true])
    expect(readdirSync(layout.processes)).toEqual([])
    expect(await endLeftovers(layout, marker, testLogger)).toBe(0)
  }, 20_000)

  test.each([
    [
      '{"pid":1,"startTime":"2","boot":"b","stopSignal":"SIGINT"}',
      { pid: 1, startTime: '2', boot: 'b', stopSignal: 'SIGINT' },
    ],
    [
      '{"pid":1,"startTime":"2","boot":"b","stopSignal":"rm"}',
      { pid: 1, startTime: '2', boot: 'b', stopSignal: 'SIGTERM' },
    ],
    ['{"pid":"1","startTime":"2","boot":"b"}', undefined],
    ['', undefined],
    ['null', undefined],
  ])('a record %s', (text, record) => {
    expect(parseRecord(text)).toEqual(record)
  })
})

test('two runtimes never use one directory, and a copy of it is another runtime', async () => {
  const directory = temporaryDirectory()
  const { store } = await openTestStore()
  const first = await startTestRuntime(store, { directory })
  await expect(startTestRuntime(store, { directory })).rejects.toMatchObject({ reason: 'DirectoryInUse' })
  await first.stop()
  await startTestRuntime(store, { directory })
  const copy = temporaryDirectory()
  writeFileSync(join(copy, 'identity.json'), readFileSync(join(directory, 'identity.json')))
  expect(openIdentity(copy).runtimeId).not.toBe(openIdentity(directory).runtimeId)
})
