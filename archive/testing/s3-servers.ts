/**
 * Starts real S3 servers for tests, built from their Go modules. Each server has an empty bucket, and listens on a free
 * port of a local address.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../operator/postgres/testing/postgres.ts'
import { madeOnce } from '../../services/testing/made-once.ts'
import type { S3Settings } from '../store/s3.ts'

type Program = {
  name: string
  module: string
  version: string
  /** `directory`: for the server's data. It contains an empty directory with the bucket's name. */
  start(address: string, directory: string): { args: string[]; env?: Record<string, string> }
}

const credentials = { accessKeyId: 'espalier', secretAccessKey: 'espalier-secret' }
const bucket = 'archive'

/** Supports conditional writes and checks signatures. The build takes minutes. */
export const versitygw: Program = {
  name: 'versitygw',
  module: 'github.com/versity/versitygw/cmd/versitygw',
  version: 'v1.8.0',
  start: (address, directory) => ({
    args: ['--port', address, '--quiet', 'posix', directory],
    env: { ROOT_ACCESS_KEY: credentials.accessKeyId, ROOT_SECRET_KEY: credentials.secretAccessKey },
  }),
}

/** A conditional `PutObject` does not replace an object, but a conditional upload in parts does. */
export const gofakes3: Program = {
  name: 'gofakes3',
  module: 'github.com/johannesboyne/gofakes3/cmd/gofakes3',
  version: 'v1.2.0',
  start: address => ({ args: ['-host', address, '-backend', 'memory', '-initialbucket', bucket, '-quiet'] }),
}

const buildMs = 600_000

/** The path of the built program. Undefined if Go or a Go module proxy is not available. */
export function program({ name, module, version }: Program): string | undefined {
  const folder = madeOnce(`${name}-${version}`, making => {
    const env = { ...process.env, GOBIN: making, GOFLAGS: '-mod=mod' }
    const built = spawnSync('go', ['install', `${module}@${version}`], { stdio: 'ignore', timeout: buildMs, env })
    return built.status === 0 ? making : undefined
  })
  return folder && join(folder, name)
}

export type S3Server = {
  settings: S3Settings
  /** Sends SIGKILL. versitygw keeps its data, gofakes3 loses its data. `start` uses the same port. */
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

export async function startS3Server(wanted: Program, host = '127.0.0.1'): Promise<S3Server> {
  const command = program(wanted)
  if (command === undefined) throw new Error(`${wanted.name} cannot be built here`)
  const directory = mkdtempSync(join(tmpdir(), 'espalier-s3-'))
  mkdirSync(join(directory, bucket))
  const port = await freePort()
  let child: ChildProcess | undefined
  const start = async () => {
    const { args, env } = wanted.start(`${host}:${port}`, directory)
    const started = spawn(command, args, { stdio: 'ignore', env: { ...process.env, ...env } })
    child = started
    await untilListening(host, port, started)
  }
  const kill = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await start()
  return {
    settings: {
      bucket,
      prefix: 'some/prefix',
      endpoint: `http://${host}:${port}`,
      region: 'us-east-1',
      pathStyle: true,
      credentials,
    },
    kill,
    start,
    stop: async () => {
      await kill()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function untilListening(host: string, port: number, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (child.exitCode !== null) throw new Error(`the S3 server ended with ${child.exitCode}`)
    const socket = connect(port, host)
    const isOpen = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false)
    socket.destroy()
    if (isOpen) return
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  throw new Error('the S3 server does not listen')
}
