/** Runs the service in a test's own process, on a free port. The test can change the configuration. */
import { Agent } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignJWT } from 'jose'
import { pino } from 'pino'
import { type Answer, sendRequest, type TestRequest, until } from '../../testing/client.ts'
import { type RestOptions, type RestService, startRest } from '../index.ts'

export const jwtSecret = 'a passphrase of tests, longer than 32 characters'
export const tokenOf = (claims: Record<string, unknown>): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(jwtSecret))

export type TestService = {
  readonly service: RestService
  readonly port: number
  readonly adminPort: number
  /** The log, one JSON object on each line. */
  readonly log: readonly string[]
  /** Replaces the configuration file's text, for the next reload. */
  configure(file: string): void
  send(path: string, request?: TestRequest): Promise<Answer>
  /** The metric's name in PromQL, without labels. */
  metric(name: string): Promise<number>
  stop(): Promise<void>
}

type TestServiceOptions = Pick<RestOptions, 'now'> & {
  /** Whether to continue before the service has read the database. */
  unready?: boolean
}

/** Starts the service. Keys are lines of the file. */
export async function startService(
  dbUri: string,
  keys: Record<string, string | number | boolean> = {},
  { unready = false, ...options }: TestServiceOptions = {},
): Promise<TestService> {
  const log: string[] = []
  const fixed = { 'db-uri': dbUri, 'server-host': '127.0.0.1', 'server-port': 0, 'admin-server-port': 0 }
  let file = configurationFile({ ...fixed, ...keys })
  const service = await startRest({
    sources: () => ({ file, environment: {}, readFile: name => `no file ${name}` }),
    logger: pino({ level: 'info' }, { write: line => log.push(line) }),
    ...options,
  })
  if (!unready) await until(service.isReady)
  const { port } = service.address as AddressInfo // The server listens on a TCP port.
  const agent = new Agent({ keepAlive: true })
  return {
    service,
    port,
    adminPort: service.adminAddress?.port ?? 0,
    log,
    configure(text) {
      file = text
    },
    send: (path, request) => sendRequest(port, path, request, agent),
    async metric(name) {
      const metric = await service.registry.getSingleMetric(name)?.get()
      return metric?.values[0]?.value ?? Number.NaN
    },
    async stop() {
      agent.destroy()
      await service.stop()
    },
  }
}

/** The configuration file with these keys. */
export const configurationFile = (keys: Record<string, string | number | boolean>): string =>
  Object.entries(keys)
    .map(([name, value]) => `${name} = ${typeof value === 'string' ? JSON.stringify(value) : value}\n`)
    .join('')
