/**
 * A process without file descriptors: `descriptors.ts DIRECTORY` opens a store, takes every descriptor that is
 * left, writes, gives them back, writes again, and prints a line for every write: `<name> kept` or `<name> <message>`.
 */
// @ts-nocheck

import { closeSync, openSync, writeSync } from 'node:fs'
import pino from 'pino'
import { openStore } from '../index.ts'

const [directory = ''] = process.argv.slice(2)
const logger = pino({ level: 'silent' })
// Small, so that a new journal is due again and again.
const store = await openStore({ directory, definitions: [], logger, compactAfterBytes: 3000 })
const cluster = store.connect('test')

async function write(name: string): Promise<void> {
  const data = { value: name, filling: 'x'.repeat(500) }
  const metadata = { namespace: 'default', name }
  const outcome = await cluster.apply('ConfigMap', { apiVersion: 'v1', kind: 'ConfigMap', metadata, data }).then(
    () => 'kept',
    (error: Error) => error.message,
  )
  writeSync(1, `${name} ${outcome}\n`)
}

function takeAll(): number[] {
  const taken: number[] = []
  for (;;) {
    try {
      taken.push(openSync('/dev/null', 'r'))
    } catch (error) {
      writeSync(1, `- ${error instanceof Error && 'code' in error ? error.code : error}\n`)
      return taken
    }
  }
}

await write('before')
const taken = takeAll()
for (let turn = 0; turn < 30; turn++) await write(`without-${turn}`)
for (const descriptor of taken) closeSync(descriptor)
for (let turn = 0; turn < 30; turn++) await write(`after-${turn}`)
process.kill(process.pid, 'SIGKILL')
