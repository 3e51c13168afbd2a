import { describe, expect, test } from 'vitest'
import { until } from '../../testing/client.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { anyone } from '../core/caller.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { createWatch } from './watch.ts'

// Nothing but its name is read.
const database = { name: 'main' } as DatabaseSettings
const entries: DatabaseEntries = {
  available: () => [database],
  current: () => database,
  select: () => 'selected',
  takeWrites: () => false,
}

function watching(fingerprint: (looks: number) => string | undefined | Error) {
  let looks = 0
  const announced: string[] = []
  const follow = createWatch({
    fingerprint: async () => {
      const found = fingerprint(looks++)
      if (found instanceof Error) throw found
      return found
    },
    entries,
    announce: uri => announced.push(uri),
    logger: { debug: () => {} },
    intervalMs: 1,
  })
  return { follow, announced, looks: () => looks }
}

describe('a resource that is watched', () => {
  test('is announced when it is another than before, and not where nothing could be told', async () => {
    const said = ['a', 'a', new Error('down'), undefined, 'a', 'b', 'b', 'c']
    const { follow, announced, looks } = watching(look => said[Math.min(look, said.length - 1)])
    const end = follow('pg://schemas', anyone)
    await until(() => looks() > said.length + 2)
    end()
    expect(announced).toEqual(['pg://schemas', 'pg://schemas'])
  })

  test('is looked at once for all who follow it, until the last is gone', async () => {
    const { follow, looks } = watching(() => 'a')
    const [first, second] = [follow('pg://schemas', anyone), follow('pg://schemas', anyone)]
    expect(looks()).toBe(1)
    first()
    first()
    await until(() => looks() > 3)
    second()
    const seen = looks()
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(looks()).toBeLessThanOrEqual(seen + 1)
  })

  test('is nothing where the caller has no database', () => {
    const { looks } = watching(() => 'a')
    const follow = createWatch({
      fingerprint: async () => 'a',
      entries: { ...entries, current: () => undefined },
      announce: () => {},
      logger: { debug: () => {} },
    })
    follow('pg://schemas', anyone)()
    expect(looks()).toBe(0)
  })
})
