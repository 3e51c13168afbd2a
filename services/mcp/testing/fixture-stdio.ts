/** The fixture as a program that speaks over standard input and output: `node services/mcp/testing/fixture-stdio.ts`. */
import { createWires } from '../wire/index.ts'
import { serveStdio } from '../wire/stdio.ts'
import { fixtureCore } from './fixture-core.ts'
import { taskPatienceMs } from './fixture-tasks.ts'

const report = (details: object, message: string) => console.error(message, details)
const wires = createWires({
  core: fixtureCore({ stopped: name => console.error(`stopped ${name}`) }),
  logger: { error: report, warn: report },
  sealingKey: Buffer.alloc(32, 7),
  taskPatienceMs,
})
await serveStdio({ wires, input: process.stdin, output: process.stdout, maximumLineBytes: 10_485_760 })
wires.modern.close()
