/** A bridge for tests, on a free port of loopback, in front of the scripted server. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Logger, pino } from 'pino'
import { stringify } from 'yaml'
import { type Answer, sendRequest, type TestRequest } from '../../testing/client.ts'
import { freePort } from '../../testing/postgres.ts'
import { readBridgeConfiguration } from '../configuration.ts'
import { startBridge } from '../index.ts'

type Tree = { readonly [key: string]: unknown }

const script = fileURLToPath(new URL('./server.ts', import.meta.url))

export type TestBridge = {
  readonly port: number
  readonly url: string
  readonly folder: string
  send(path: string, options?: TestRequest): Promise<Answer>
  /** Sends a message of an older revision, with the values for its headers. */
  post(message: unknown, headers?: Record<string, string>, path?: string): Promise<Answer>
  /** Returns the headers of an initialized session. */
  session(headers?: Record<string, string>, version?: string): Promise<Record<string, string>>
  stop(): Promise<void>
}

export type BridgeParts = {
  readonly server?: Tree
  readonly mcp_server?: Tree
  readonly session?: Tree
  /** Arguments for the scripted server. */
  readonly args?: readonly string[]
  readonly oauth_server?: Tree
  readonly port?: number
  readonly folder?: string
  readonly logger?: Logger
}

export async function startTestBridge(parts: BridgeParts = {}): Promise<TestBridge> {
  const folder = parts.folder ?? mkdtempSync(join(tmpdir(), 'espalier-bridge-'))
  const port = parts.port ?? (await freePort())
  const url = `http://127.0.0.1:${port}`
  const path = join(folder, 'bridge.yaml')
  const file = {
    server: { listen: `127.0.0.1:${port}`, public_url: url, auth: { type: 'none' }, ...parts.server },
    mcp_server: {
      command: process.execPath,
      args: [script, ...(parts.args ?? ['multiplexed'])],
      restart_delay: '50ms',
      graceful_shutdown_timeout: '1s',
      ...parts.mcp_server,
    },
    ...(parts.session && { session: parts.session }),
    ...(parts.oauth_server && { oauth_server: { enabled: true, ...parts.oauth_server } }),
  }
  writeFileSync(path, stringify(file))
  const clear = () => {
    if (parts.folder === undefined) rmSync(folder, { recursive: true, force: true })
  }
  const logger = parts.logger ?? pino({ level: process.env.BRIDGE_LOG ?? 'silent' })
  const start = async () => startBridge(readBridgeConfiguration(path, process.env), logger)
  const bridge = await start().catch((error: unknown) => {
    clear()
    throw error
  })
  const send = (to: string, options: TestRequest = {}) => sendRequest(port, to, options)
  const headersOf = (headers: Record<string, string>) => ({
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    ...headers,
  })
  const post: TestBridge['post'] = (message, headers = {}, to = '/mcp') =>
    send(to, { method: 'POST', headers: headersOf(headers), body: JSON.stringify(message) })
  for (let tries = 0; tries < 500 && (await send('/ready')).status !== 200; tries += 1)
    await new Promise(resolve => setTimeout(resolve, 10))
  return {
    port,
    url,
    folder,
    send,
    post,
    async session(headers = {}, version = '2025-11-25') {
      const clientInfo = { name: 'test', version: '1' }
      const params = { protocolVersion: version, capabilities: { elicitation: {} }, clientInfo }
      const answer = await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params }, headers)
      const all = { ...headers, 'Mcp-Session-Id': String(answer.headers['mcp-session-id']) }
      await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, all)
      return all
    },
    async stop() {
      await bridge.stop()
      clear()
    },
  }
}
