/** Serves the fixture over HTTP in the test's own process: /mcp/v1 as in the product. */
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { closeServer, listen } from '../../http/listen.ts'
import type { Handler } from '../../http/message.ts'
import type { Authentication } from '../credentials/types.ts'
import { createMcpServer } from '../server.ts'
import { createTransports, type TransportOptions, type Transports } from '../transport/index.ts'
import { type FixtureOptions, fixtureCore } from './fixture-core.ts'
import { taskDelayMs } from './fixture-tasks.ts'

export type Fixture = {
  readonly transports: Transports
  readonly port: number
  /** The log lines. */
  readonly log: readonly string[]
  stop(): Promise<void>
}

type FixtureServerOptions = FixtureOptions &
  Partial<Pick<TransportOptions, 'now' | 'sealingKey' | 'peers'>> & {
    readonly authentication?: Authentication
    readonly api?: Handler
    readonly allowedOrigins?: readonly string[]
    readonly resourceMetadata?: string
    readonly port?: number
  }

export const sealingKey = Buffer.alloc(32, 7)
/** The program that serves the fixture over standard input and output. */
export const fixtureProgram = fileURLToPath(new URL('./fixture-stdio.ts', import.meta.url))

export async function startFixture(options: FixtureServerOptions = {}): Promise<Fixture> {
  const { authentication, api, allowedOrigins = [], resourceMetadata, now, peers, port = 0, ...others } = options
  const log: string[] = []
  const write = (details: object, message: string) => void log.push(`${message} ${JSON.stringify(details)}`)
  const transports = createTransports({
    core: fixtureCore(others),
    logger: { error: write, warn: write },
    sealingKey: others.sealingKey ?? sealingKey,
    taskDelayMs,
    peers,
    ...(now === undefined ? {} : { now }),
  })
  const server = createMcpServer({
    transports,
    settings: { host: '127.0.0.1', allowedOrigins, trustedProxies: ['127.0.0.1'] },
    maximumBodyBytes: 10_485_760,
    authentication,
    resourceMetadata,
    peers,
    api: api ?? (async () => ({ status: 404, headers: [], body: undefined })),
  })
  const address = await listen(server, { host: '127.0.0.1', port })
  return {
    transports,
    log,
    // The server listens on a TCP port.
    port: (address as AddressInfo).port,
    async stop() {
      transports.modern.close()
      await closeServer(server, 100)
    },
  }
}
