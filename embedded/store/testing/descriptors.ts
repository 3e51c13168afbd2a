/**
 * A process without free file descriptors. `descriptors.ts DIRECTORY` opens a store, uses up all descriptors, writes,
 * frees the descriptors and writes again. For every write it prints a line `<name> kept` or `<name> <message>`.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import pino from 'pino'
import { openStore } from '../index.ts'

const [directory = ''] = process.argv.slice(2)
const logger = pino({ level: 'silent' })
// Small, so that the store often needs a new journal.
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
for (let round = 0; round < 30; round++) await write(`without-${round}`)
for (const descriptor of taken) closeSync(descriptor)
for (let round = 0; round < 30; round++) await write(`after-${round}`)
process.kill(process.pid, 'SIGKILL')
