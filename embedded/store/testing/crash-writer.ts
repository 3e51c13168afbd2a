/**
 * A process for kill tests. `crash-writer.ts DIRECTORY ROUND` writes concurrently to the store in that directory until
 * it is killed. For every acknowledged write it prints a line `<version> <name> <value>`; the value `-` means a
 * deletion.
 */
import { writeSync } from 'node:fs'
import pino from 'pino'
import type { Cluster } from '../../../cluster/port.ts'
import { openStore } from '../index.ts'

const [directory = '', round = '0'] = process.argv.slice(2)
const store = await openStore({
  directory,
  definitions: [],
  logger: pino({ level: 'silent' }),
  // Small, so that many kills happen during a compaction.
  compactAfterBytes: 20_000,
})

/** Retries, because the pipe can be full for a moment if its reader is slow. */
function print(line: string): void {
  for (;;)
    try {
      writeSync(1, line)
      return
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
}

async function write(cluster: Cluster, name: string, step: number): Promise<void> {
  const value = `${round}.${step}`
  if (step % 9 === 8) {
    await cluster.delete('ConfigMap', { namespace: 'default', name })
    print(`0 ${name} -\n`)
    return
  }
  const draft = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'default', name },
    data: { value, filling: value.repeat(50) },
  } as const
  const { metadata } = await cluster.apply('ConfigMap', draft)
  print(`${metadata.resourceVersion} ${name} ${value}\n`)
}

async function writeForEver(side: number): Promise<void> {
  const cluster = store.connect(`side-${side}`)
  for (let step = 0; ; step++) await write(cluster, `side-${side}-${step % 3}`, step)
}

await Promise.all([0, 1, 2, 3, 4].map(writeForEver))
