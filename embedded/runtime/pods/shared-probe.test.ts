import { describe, expect, test } from 'vitest'
import { walProbeCommand } from '../../../operator/managed-database/children/wal-probe.ts'
import { createSharedProbes } from './shared-probe.ts'

function open() {
  let now = 0
  let runs = 0
  const probes = createSharedProbes({
    now: () => now,
    deviceOf: directory => (directory.startsWith('/gone') ? undefined : directory.startsWith('/other') ? 2 : 1),
  })
  return {
    runs: () => runs,
    later: (ms: number) => {
      now += ms
    },
    probe: (directory: string, answer: Promise<number | undefined> = Promise.resolve(0)) =>
      probes.run(walProbeCommand(directory, '/lock'), () => {
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
  test('of databases on one file system are one, for less than a period', async () => {
    const { probe, runs, later } = open()
    for (const directory of ['/a', '/b', '/c']) expect(await probe(directory)).toBe(0)
    expect(runs()).toBe(1)
    await probe('/other/d')
    expect(runs()).toBe(2)
    later(10_000)
    expect(await probe('/b')).toBe(0)
    expect(runs()).toBe(3)
  })

  test('that are under way are waited for by all, and a failure is told to all of them and kept for none', async () => {
    const { probe, runs } = open()
    const gate = Promise.withResolvers<number | undefined>()
    const waiting = ['/a', '/b', '/c'].map(directory => probe(directory, gate.promise))
    gate.resolve(1)
    expect(await Promise.all(waiting)).toEqual([1, 1, 1])
    expect(runs()).toBe(1)
    expect(await probe('/a')).toBe(0)
    expect(runs()).toBe(2)
  })

  test('whose file system cannot be told, and other commands, are always run', async () => {
    const { probe, run, runs } = open()
    await probe('/gone')
    await probe('/gone')
    await run(['true'])
    await run(['true'])
    expect(runs()).toBe(4)
  })
})
