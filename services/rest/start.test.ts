/** A service that cannot start reports the reason, and leaves no open port and no process. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listen } from '../http/listen.ts'
import { freePort } from '../testing/postgres.ts'
import { startRest } from './index.ts'
import { startRestWorkers } from './workers.ts'

const taken = createServer()
const logger = pino({ level: 'silent' })

beforeEach(async () => {
  await listen(taken, { host: '127.0.0.1', port: 0 })
})
afterEach(() => new Promise<void>(resolve => taken.close(() => resolve())))

const kinds = [
  ['one process', 1, startRest],
  ['several', 2, startRestWorkers],
] as const

test.each(kinds)(
  '%s: the service reports unsupported parts of db-uri, without their values',
  async (_, workers, start) => {
    const file = `db-uri = "postgresql://a:Secret@h/d?require_auth=Secret"\nserver-workers = ${workers}`
    const sources = () => ({ file, environment: {}, readFile: () => '' })
    const reason = 'db-uri (file, line 1) has a keyword that is not supported: require_auth'
    await expect(start({ sources, logger })).rejects.toMatchObject({ message: reason })
  },
)

test.each(kinds)(
  "%s: if the admin server's port is in use, the service closes its other port",
  async (_, workers, start) => {
    const { port: adminPort } = taken.address() as AddressInfo // The address of a TCP server.
    const port = await freePort()
    const file = [
      'db-uri = "postgresql://nobody@127.0.0.1:1/none"',
      'server-host = "127.0.0.1"',
      `server-port = ${port}`,
      `admin-server-port = ${adminPort}`,
      `server-workers = ${workers}`,
    ].join('\n')
    const sources = () => ({ file, environment: {}, readFile: () => '' })
    await expect(start({ sources, logger })).rejects.toMatchObject({ code: 'EADDRINUSE', port: adminPort })
    const again = createServer()
    await listen(again, { host: '127.0.0.1', port })
    await new Promise(resolve => again.close(resolve))
  },
)
