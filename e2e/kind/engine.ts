/**
 * The container engine of the node: an existing engine, or a dockerd that is started here. Its data, socket and network
 * are under the cluster's home directory, so that stopping it leaves nothing.
 */
import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '../../images/command.ts'
import { KindError } from './errors.ts'
import { pathsOf, type Settings } from './settings.ts'

export type KindEngine = { host: string; isOwn: boolean }

const socketOf = (settings: Settings) => join(pathsOf(settings).engine, 'docker.sock')
const pidFileOf = (settings: Settings) => join(pathsOf(settings).engine, 'docker.pid')
/** The socket of this cluster's own engine, if it runs. */
export const ownHost = (settings: Settings): string => `unix://${socketOf(settings)}`
const startTimeoutMs = 60_000

/** Runs docker against an engine. */
export const dockerOn =
  (run: Run, host: string) =>
  (args: readonly string[], options?: Parameters<Run>[2]): Promise<string> =>
    run('docker', ['--host', host, ...args], options)

export const answers = (run: Run, host: string): Promise<boolean> =>
  run('docker', ['--host', host, 'info', '--format', '{{.ID}}'], { timeoutMs: 20_000 }).then(
    () => true,
    () => false,
  )

/** An existing engine, if one answers. */
export async function findForeignEngine(run: Run, environment: NodeJS.ProcessEnv): Promise<KindEngine | undefined> {
  const host = environment.DOCKER_HOST || 'unix:///var/run/docker.sock'
  return (await answers(run, host)) ? { host, isOwn: false } : undefined
}

async function pidOf(settings: Settings): Promise<number | undefined> {
  const pid = Number(await readFile(pidFileOf(settings), 'utf8').catch(() => ''))
  if (!Number.isSafeInteger(pid) || pid < 2) return undefined
  // A pid may be reused, so check the command line: that of this cluster's own engine names its pid file.
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return command.includes(pidFileOf(settings)) ? pid : undefined
}

/** Starts dockerd unless it runs. @throws KindError with the end of its log */
export async function startEngine(settings: Settings, run: Run, runc: string): Promise<KindEngine> {
  const directory = pathsOf(settings).engine
  const host = ownHost(settings)
  if ((await pidOf(settings)) !== undefined && (await answers(run, host))) return { host, isOwn: true }
  if (process.getuid?.() !== 0) {
    throw new KindError('no Docker engine answers, and starting one takes root: run as root, or start Docker')
  }
  await mkdir(directory, { recursive: true })
  const configuration = join(directory, 'daemon.json')
  await writeFile(configuration, '{}\n')
  const log = join(directory, 'dockerd.log')
  const output = openSync(log, 'a')
  const args = [
    ['--config-file', configuration],
    ['--data-root', join(directory, 'data')],
    ['--exec-root', join(directory, 'exec')],
    ['--pidfile', pidFileOf(settings)],
    ['--host', host],
    ['--add-runtime', `espalier=${runc}`],
    ['--default-runtime', 'espalier'],
    // The node has its own network. The default network would be shared with all other engines on this machine.
    ['--bridge', 'none'],
  ].flat()
  const child = spawn('dockerd', args, { detached: true, stdio: ['ignore', output, output] })
  const failed = new Promise<never>((_, reject) => {
    child.once('error', cause => reject(new KindError(`cannot start dockerd: ${cause.message}`, { cause })))
    child.once('exit', code => reject(new KindError(`dockerd ended with ${code}; ${log} says why`)))
  })
  const ready = (async () => {
    const deadline = Date.now() + startTimeoutMs
    while (Date.now() < deadline) {
      if (await answers(run, host)) return
      await sleep(200)
    }
    throw new KindError(`dockerd does not answer; ${log} says why`)
  })()
  await Promise.race([ready, failed])
  child.removeAllListeners()
  child.unref()
  return { host, isOwn: true }
}

/** Stops the own engine and all its containers, and removes its files. */
export async function stopEngine(settings: Settings, run: Run): Promise<void> {
  const directory = pathsOf(settings).engine
  const pid = await pidOf(settings)
  if (pid !== undefined) {
    process.kill(pid, 'SIGTERM')
    const deadline = Date.now() + 30_000
    while ((await pidOf(settings)) !== undefined && Date.now() < deadline) await sleep(100)
    if ((await pidOf(settings)) !== undefined) process.kill(pid, 'SIGKILL')
  }
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').map(line => line.split(' ')[1] ?? '')
  for (const mount of mounts.filter(path => path.startsWith(`${directory}/`)).reverse()) {
    await run('umount', ['--lazy', mount]).catch(() => {})
  }
  await rm(directory, { recursive: true, force: true, maxRetries: 5 })
}
