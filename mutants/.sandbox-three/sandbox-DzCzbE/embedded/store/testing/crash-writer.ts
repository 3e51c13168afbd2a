/**
 * A process to be killed: `crash-writer.ts DIRECTORY ROUND` writes to the store in that directory from several sides until
 * it dies, and prints a line for every write that was acknowledged: `<version> <name> <value>`, value `-` for a deletion.
 */
// @ts-nocheck

import { writeSync } from 'node:fs'
import pino from 'pino'
import type { Cluster } from '../../../cluster/port.ts'
import { openStore } from '../index.ts'

const [directory = '', round = '0'] = process.argv.slice(2)
const store = await openStore({
  directory,
  definitions: [],
  logger: pino({ level: 'silent' }),
  // Small, so that many of the kills come in the middle of a compaction.
  compactAfterBytes: 20_000,
})

async function write(cluster: Cluster, name: string, turn: number): Promise<void> {
  const value = `${round}.${turn}`
  if (turn % 9 === 8) {
    await cluster.delete('ConfigMap', { namespace: 'default', name })
    writeSync(1, `0 ${name} -\n`)
    return
  }
  const draft = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'default', name },
    data: { value, filling: value.repeat(50) },
  } as const
  const { metadata } = await cluster.apply('ConfigMap', draft)
  writeSync(1, `${metadata.resourceVersion} ${name} ${value}\n`)
}

async function writeForEver(side: number): Promise<void> {
  const cluster = store.connect(`side-${side}`)
  for (let turn = 0; ; turn++) await write(cluster, `side-${side}-${turn % 3}`, turn)
}

await Promise.all([0, 1, 2, 3, 4].map(writeForEver))
