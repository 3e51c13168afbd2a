/** Serves the fixture over standard input and output: `node services/mcp/testing/fixture-stdio.ts`. */
import { createTransports } from '../transport/index.ts'
import { serveStdio } from '../transport/stdio.ts'
import { fixtureCore } from './fixture-core.ts'
import { taskDelayMs } from './fixture-tasks.ts'

const report = (details: object, message: string) => console.error(message, details)
const transports = createTransports({
  core: fixtureCore({ stopped: name => console.error(`stopped ${name}`) }),
  logger: { error: report, warn: report },
  sealingKey: Buffer.alloc(32, 7),
  taskDelayMs,
})
await serveStdio({ transports, input: process.stdin, output: process.stdout, maximumLineBytes: 10_485_760 })
transports.modern.close()
