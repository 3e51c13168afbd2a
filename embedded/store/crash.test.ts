/** kill -9 at any moment: every acknowledged write survives, and versions only increase. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openStore } from './index.ts'
import { silent, temporaryDirectory } from './testing/store.ts'

const writer = join(import.meta.dirname, 'testing', 'crash-writer.ts')

/** One acknowledged write: the new value, or `-` for a deletion. */
type Acknowledged = { version: number; name: string; value: string }

/** Runs the writer, kills it some time after its first write, and returns the acknowledged writes. */
async function writeAndKill(directory: string, round: number, afterMs: number): Promise<Acknowledged[]> {
  const child = spawn(process.execPath, [writer, directory, `${round}`], { stdio: ['ignore', 'pipe', 'inherit'] })
  const acknowledged: Acknowledged[] = []
  const lines = createInterface({ input: child.stdout })
  const began = once(lines, 'line')
  const ended = once(lines, 'close')
  lines.on('line', line => {
    const [version = '', name = '', value = ''] = line.split(' ')
    acknowledged.push({ version: Number(version), name, value })
  })
  await Promise.race([began, once(child, 'exit')])
  await delay(afterMs)
  child.kill('SIGKILL')
  await ended
  return acknowledged
}

/** The writer's step in a value. Writes to one name run one after another, and their steps are 3 apart. */
const stepOf = (value: string | undefined): number => Number(value?.split('.')[1] ?? -1)

async function survivesKills(rounds: number): Promise<void> {
  const directory = temporaryDirectory()
  let newest = 0
  for (let round = 0; round < rounds; round++) {
    const acknowledged = await writeAndKill(directory, round, Math.random() * 60)
    expect(acknowledged.length).toBeGreaterThan(0)
    const store = await openStore({ directory, definitions: [], logger: silent })
    const { items, resourceVersion } = await store.connect('test').list('ConfigMap')
    const found = new Map(items.map(({ metadata, data }) => [metadata.name, data?.value]))
    const last = new Map(acknowledged.map(write => [write.name, write]))
    for (const { name, value } of last.values()) {
      // The write after the last acknowledged write may or may not exist. A name has at most one such write.
      const present = found.get(name)
      if (present === value || (value === '-' && present === undefined)) continue
      const before = value === '-' ? undefined : stepOf(value)
      expect(present === undefined ? undefined : present.split('.')[0]).toBe(
        present === undefined ? undefined : `${round}`,
      )
      if (before !== undefined && present !== undefined) expect(stepOf(present)).toBe(before + 3)
      if (before !== undefined && present === undefined) expect((before + 3) % 9).toBe(8)
    }
    newest = Math.max(newest, ...acknowledged.map(({ version }) => version))
    expect(Number(resourceVersion)).toBeGreaterThanOrEqual(newest)
    newest = Number(resourceVersion)
    await store.close()
  }
}

test('acknowledged writes survive kill -9, repeatedly', async () => {
  await Promise.all([survivesKills(8), survivesKills(8), survivesKills(8)])
}, 120_000)
