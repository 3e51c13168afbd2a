import { describe, expect, test } from 'vitest'
import { until } from '../../testing/client.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { anyone } from '../core/caller.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { createWatch } from './watch.ts'

// The watch reads only the name.
const database = { name: 'main' } as DatabaseSettings
const entries: DatabaseEntries = {
  available: () => [database],
  current: () => database,
  select: () => 'selected',
  hasWritable: () => false,
}

function watching(fingerprint: (checks: number) => string | undefined | Error) {
  let checks = 0
  const announced: string[] = []
  const follow = createWatch({
    fingerprint: async () => {
      const found = fingerprint(checks++)
      if (found instanceof Error) throw found
      return found
    },
    entries,
    announce: uri => announced.push(uri),
    logger: { debug: () => {} },
    intervalMs: 1,
  })
  return { follow, announced, checks: () => checks }
}

describe('a watched resource', () => {
  test('is announced when its fingerprint changes, but not after a check without a fingerprint', async () => {
    const fingerprints = ['a', 'a', new Error('down'), undefined, 'a', 'b', 'b', 'c']
    const { follow, announced, checks } = watching(check => fingerprints[Math.min(check, fingerprints.length - 1)])
    const end = follow('pg://schemas', anyone)
    await until(() => checks() > fingerprints.length + 2)
    end()
    expect(announced).toEqual(['pg://schemas', 'pg://schemas'])
  })

  test('is checked once for all subscribers, until the last one unsubscribes', async () => {
    const { follow, checks } = watching(() => 'a')
    const [first, second] = [follow('pg://schemas', anyone), follow('pg://schemas', anyone)]
    expect(checks()).toBe(1)
    first()
    first()
    await until(() => checks() > 3)
    second()
    const seen = checks()
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(checks()).toBeLessThanOrEqual(seen + 1)
  })

  test('is not checked if the caller has no database', () => {
    const { checks } = watching(() => 'a')
    const follow = createWatch({
      fingerprint: async () => 'a',
      entries: { ...entries, current: () => undefined },
      announce: () => {},
      logger: { debug: () => {} },
    })
    follow('pg://schemas', anyone)()
    expect(checks()).toBe(0)
  })
})
