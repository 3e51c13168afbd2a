/**
 * Starts the programs that bench/mcp.ts measures: the tool server, the bridge in front of a second tool server, and the
 * baseline, which only responds with the same bytes.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'

export type McpServer = { readonly port: number; readonly pid: number; readonly startMs: number; stop(): Promise<void> }

/** The settings of the baseline: the body of its response, and a statement that it runs first, if any. */
type Bare = { readonly body: string; readonly database: string; readonly statement: string | undefined }

const program = fileURLToPath(new URL('../bin/espalier.mjs', import.meta.url))

/** Waits until the server logs that it listens. */
async function started(child: ChildProcess, began: number): Promise<McpServer> {
  const lastResort = () => child.kill('SIGKILL')
  process.once('exit', lastResort)
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    output = (output + text).slice(-5_000)
  })
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout?.setEncoding('utf8').on('data', text => {
      const found = /listens on https?:\/\/[^\s]*:(\d+)/.exec(text)?.[1]
      if (found !== undefined) resolve(Number(found))
    })
    child.once('exit', () => reject(new Error(`the server has ended: ${output}`)))
  })
  return {
    port,
    pid: child.pid ?? 0,
    startMs: performance.now() - began,
    async stop() {
      process.off('exit', lastResort)
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** Returns the environment with the address of the database. */
const environmentOf = (database: string): NodeJS.ProcessEnv => {
  const { hostname, port, username, pathname } = new URL(database)
  return { ...process.env, PGHOST: hostname, PGPORT: port, PGUSER: username, PGDATABASE: pathname.slice(1) }
}

const toolServerFlags = (authentication: readonly string[]) => [
  'mcp',
  '-http',
  ...authentication,
  '-addr',
  '127.0.0.1:0',
]

export function startToolServer(database: string, authentication = ['-no-auth']): Promise<McpServer> {
  const began = performance.now()
  const args = [program, ...toolServerFlags(authentication)]
  return started(spawn(process.execPath, args, { env: environmentOf(database) }), began)
}

/** Starts the tool server of another checkout, such as that of an earlier commit. */
export function startToolServerOf(checkout: string, database: string): Promise<McpServer> {
  const began = performance.now()
  const args = [join(checkout, 'bin/espalier.mjs'), ...toolServerFlags(['-no-auth'])]
  return started(spawn(process.execPath, args, { env: environmentOf(database) }), began)
}

export const startBridge = (database: string, directory: string, port: number): Promise<McpServer> =>
  startBridgeWith(database, directory, port, { server: { auth: { type: 'none' } } })

type BridgeFile = { readonly server: object; readonly oauth_server?: object }

export function startBridgeWith(
  database: string,
  directory: string,
  port: number,
  { server, oauth_server }: BridgeFile,
): Promise<McpServer> {
  const began = performance.now()
  const configuration = join(directory, 'bridge.yaml')
  const file = {
    server: { listen: `127.0.0.1:${port}`, ...server },
    ...(oauth_server && { oauth_server }),
    mcp_server: { command: process.execPath, args: [program, 'mcp'], env: { ...environmentOf(database) } },
  }
  // YAML includes JSON.
  writeFileSync(configuration, JSON.stringify(file))
  return started(spawn(process.execPath, [program, 'mcp-bridge', '-c', configuration]), began)
}

export async function startBare(bare: Bare): Promise<McpServer> {
  const child = fork(fileURLToPath(import.meta.url), [], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const began = performance.now()
  child.send(bare)
  const [port] = await once(child, 'message')
  const stop = async () => void child.kill()
  return { port, pid: child.pid ?? 0, startMs: performance.now() - began, stop }
}

/** Serves the baseline in a child process: parses a request, runs the statement, and responds. */
async function serveBare({ body, database, statement }: Bare): Promise<number> {
  const bytes = Buffer.from(body)
  const pool = new pg.Pool({ connectionString: database, max: 10 })
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', async () => {
      JSON.parse(Buffer.concat(chunks).toString())
      if (statement !== undefined) await pool.query({ text: statement, rowMode: 'array' })
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': bytes.length })
      response.end(bytes)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

if (import.meta.main) process.once('message', async (bare: Bare) => process.send?.(await serveBare(bare)))
