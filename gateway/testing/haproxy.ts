/** A real HAProxy for tests and benchmarks, in its own directory and on its own loopback address. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Certificate } from '../../server/certificate.ts'
import { type HaproxyOptions, haproxyDefaults } from '../haproxy/configuration.ts'
import type { HttpsOptions } from '../haproxy/https.ts'
import { type Paths, pathsIn } from '../haproxy/paths.ts'
import { connectRuntime } from '../haproxy/runtime.ts'
import { writeConfiguration } from '../haproxy/write.ts'
import { testCertificate } from './certificate.ts'
import { ownLoopback, until } from './sockets.ts'

/** ESPALIER_HAPROXY selects another program than the one on the path. */
const program = process.env.ESPALIER_HAPROXY || 'haproxy'

/** The version of this machine's HAProxy; undefined if it is not installed. */
export const haproxyVersion = /^HAProxy version (\S+)/.exec(
  spawnSync(program, ['-v'], { encoding: 'utf8' }).stdout ?? '',
)?.[1]

export type TestHaproxy = {
  paths: Paths
  host: string
  ports: { first: number; last: number }
  operationsPort: number
  httpsPort: number
  /** The HTTPS listener's certificate, until another one is pushed. */
  certificate: Certificate & { ca: string }
  pid(): number
  isRunning(): boolean
  start(): Promise<void>
  /** Sends a signal. If the signal ends the process, waits for its end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Answers of the runtime API, on a separate connection. */
  runCommand(command: string): Promise<string>
  close(): Promise<void>
}

/** @param rewrite changes the configuration, for comparisons */
export async function openHaproxy(
  { https = {}, ...options }: Partial<Omit<HaproxyOptions, 'https'>> & { https?: Partial<HttpsOptions> } = {},
  rewrite?: (configuration: string) => string,
): Promise<TestHaproxy> {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-haproxy-'))
  const paths = pathsIn(directory)
  const host = ownLoopback()
  const ports = { first: 20_000, last: 20_019 }
  const operationsPort = 19_999
  const httpsPort = 18_443
  const certificate = testCertificate('espalier.invalid')
  await writeConfiguration({
    ...haproxyDefaults,
    maxConnections: 5_000,
    operationsPort,
    host,
    ports,
    paths,
    https: { port: httpsPort, maxConnections: 2_000, placeholder: certificate, ...https },
    ...options,
  })
  if (rewrite) await writeFile(paths.configuration, rewrite(await readFile(paths.configuration, 'utf8')))
  let child: ChildProcess | undefined

  const runCommand = async (command: string): Promise<string> => {
    const connection = await connectRuntime(paths.runtime, { answerMs: 5_000, answerBytes: 64 * 1024 * 1024 })
    if ('kind' in connection) return ''
    const answer = await connection.command(command)
    connection.close()
    return answer.kind === 'answer' ? answer.text : ''
  }
  const start = async (): Promise<void> => {
    const started = spawn(program, ['-db', '-f', paths.configuration], { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [started.stdout, started.stderr]) stream.on('data', (text: Buffer) => (output += text))
    child = started
    await until('HAProxy answers', async () => {
      if (started.exitCode !== null) throw new Error(`HAProxy has ended: ${output}`)
      return (await runCommand('show info')).includes(`Pid: ${started.pid}`)
    })
  }
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null
  const kill = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || !isRunning()) return
    const ended = once(child, 'exit')
    child.kill(signal)
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await ended
  }
  await start()
  return {
    paths,
    host,
    ports,
    operationsPort,
    httpsPort,
    certificate,
    pid: () => child?.pid ?? 0,
    isRunning,
    start,
    kill,
    runCommand,
    close: async () => {
      await kill('SIGKILL')
      await rm(directory, { recursive: true, force: true })
    },
  }
}
