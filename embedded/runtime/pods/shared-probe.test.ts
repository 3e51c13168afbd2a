import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { walProbeCommand } from '../../../operator/member/pod/wal-probe.ts'
import { temporaryDirectory } from '../testing/runtime.ts'
import { fullDiskCode } from './probes.ts'
import { createSharedProbes } from './shared-probe.ts'

/**
 * Each directory is on a file system named by its first letter. The file system `g` is unknown; `o` and `p` are the
 * runtime's own.
 */
function start(timeoutMs = 10_000) {
  let now = 0
  let runs = 0
  let isFull = false
  const [directory, pool] = [temporaryDirectory(), temporaryDirectory()]
  const devices = new Map<string, number | undefined>([
    [directory, 'o'.charCodeAt(0)],
    [pool, 'p'.charCodeAt(0)],
    ['/g', undefined],
  ])
  const probes = createSharedProbes({
    now: () => now,
    directories: [directory, pool],
    timeoutMs,
    hasFreeSpace: async () => !isFull,
    deviceOf: path => (devices.has(path) ? devices.get(path) : path.charCodeAt(1)),
  })
  return {
    file: join(directory, 'espalier-probe'),
    runs: () => runs,
    fill: (is: boolean) => {
      isFull = is
    },
    later: (ms: number) => {
      now += ms
    },
    probe: (wal: string, answer: Promise<number | undefined> = Promise.resolve(0)) =>
      probes.run(walProbeCommand(wal, '/lock'), () => {
        runs++
        return answer
      }),
    run: (command: string[]) =>
      probes.run(command, async () => {
        runs++
        return 0
      }),
  }
}

describe('probes of WAL', () => {
  test('of volumes next to a pool and in it are done by the runtime, which reports a full disk', async () => {
    const { probe, runs, fill } = start()
    fill(true)
    for (const directory of ['/o1', '/p1']) expect(await probe(directory)).toBe(fullDiskCode)
    expect(runs()).toBe(0)
  })

  test('of databases on one file system share their result for less than a period', async () => {
    const { probe, runs, later } = start()
    for (const directory of ['/a1', '/a2', '/a3']) expect(await probe(directory)).toBe(0)
    expect(runs()).toBe(1)
    await probe('/b1')
    expect(runs()).toBe(2)
    later(10_000)
    expect(await probe('/a2')).toBe(0)
    expect(runs()).toBe(3)
  })

  test('that are running serve all callers; a failure is reported to all callers and is not cached', async () => {
    const { probe, runs } = start()
    const gate = Promise.withResolvers<number | undefined>()
    const waiting = ['/a1', '/a2', '/a3'].map(directory => probe(directory, gate.promise))
    gate.resolve(1)
    expect(await Promise.all(waiting)).toEqual([1, 1, 1])
    expect(runs()).toBe(1)
    expect(await probe('/a1')).toBe(0)
    expect(runs()).toBe(2)
  })

  test('with an unknown file system, and other commands, always run', async () => {
    const { probe, run, runs } = start()
    await probe('/g')
    await probe('/g')
    await run(['true'])
    await run(['true'])
    expect(runs()).toBe(4)
  })

  test("on the runtime's own file system start no process: the runtime writes there itself", async () => {
    const { probe, runs, file } = start()
    expect(await probe('/o1')).toBe(0)
    expect(statSync(file).size).toBe(512)
    expect(runs()).toBe(0)
  })

  test('fail while a write of the runtime hangs, and pass after it; the runtime does not start a second write', async () => {
    const { probe, file } = start(1_000)
    expect(spawnSync('mkfifo', [file]).status).toBe(0)
    // Opening a pipe without a reader hangs, as a write to a hung disk does.
    expect(await probe('/o1')).toBe(1)
    const began = performance.now()
    expect(await probe('/o2')).toBe(1)
    expect(performance.now() - began).toBeLessThan(500)
    await once(spawn('cat', [file], { stdio: 'ignore' }), 'exit')
    rmSync(file)
    await expect.poll(() => probe('/o1'), { timeout: 5_000 }).toBe(0)
  })

  test('pass if the write fails: only a hang fails them', async () => {
    const { probe, file } = start()
    expect(spawnSync('mkdir', [file]).status).toBe(0)
    expect(await probe('/o1')).toBe(0)
  })

  test('that the runtime runs itself fail while the disk is full', async () => {
    const { probe, fill } = start()
    fill(true)
    expect(await probe('/o1')).toBe(fullDiskCode)
    fill(false)
    expect(await probe('/o1')).toBe(0)
  })
})
