/** The service in a test's own process: on a free port, with a configuration that the test can change, and a client that sends what it is told to. */
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { SignJWT } from 'jose'
import { pino } from 'pino'
import { type RestOptions, type RestService, startRest } from '../index.ts'

export type Asked = {
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** Ends the request from the client's side. */
  signal?: AbortSignal
  /** Instead of the port. */
  socketPath?: string
}
export type Answer = { status: number; statusText: string; headers: IncomingHttpHeaders; text: string }

/** Sends the path as it is, without any normalization. Each agent keeps connections of its own. */
export function ask(port: number, path: string, asked: Asked = {}, agent?: Agent): Promise<Answer> {
  const { method = 'GET', headers = {}, body, signal, socketPath } = asked
  // Node's client says the length of a body of its own accord for some methods only.
  const isSized = body === undefined || 'Transfer-Encoding' in headers
  const sized = isSized ? headers : { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }
  const where = socketPath === undefined ? { host: '127.0.0.1', port } : { socketPath }
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ ...where, path, method, headers: sized, agent, signal }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          statusText: response.statusMessage ?? '',
          headers: response.headers,
          text: Buffer.concat(chunks).toString('utf8'),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** Waits until it is so; a test's own limit ends what never comes. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(10)
}

export const jwtSecret = 'a passphrase of tests, longer than 32 characters'
export const tokenOf = (claims: Record<string, unknown>): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(jwtSecret))

export type TestService = {
  readonly service: RestService
  readonly port: number
  readonly adminPort: number
  /** What has been logged, one JSON object a line. */
  readonly log: readonly string[]
  /** Replaces the text of the configuration file, for the next reload. */
  configure(file: string): void
  ask(path: string, asked?: Asked): Promise<Answer>
  /** As PromQL would name it, without labels. */
  metric(name: string): Promise<number>
  stop(): Promise<void>
}

export type TestServiceOptions = Pick<RestOptions, 'now'> & {
  /** Whether to go on before the database has been read. */
  unready?: boolean
}

/** Starts it; keys come as lines of the file. */
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
  const { port } = service.address as AddressInfo // it listens on a port
  const agent = new Agent({ keepAlive: true })
  return {
    service,
    port,
    adminPort: service.adminAddress?.port ?? 0,
    log,
    configure(text) {
      file = text
    },
    ask: (path, asked) => ask(port, path, asked, agent),
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

/** The file of these keys. */
export const configurationFile = (keys: Record<string, string | number | boolean>): string =>
  Object.entries(keys)
    .map(([name, value]) => `${name} = ${typeof value === 'string' ? JSON.stringify(value) : value}\n`)
    .join('')
