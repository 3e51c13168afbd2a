/**
 * An installation as its user runs it: `espalier run` as a process, with its own home directory and ports. A test can
 * stop it, kill it with all its processes, and start it again.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { gatewayHost } from '../embedded/catalogue.ts'
import { findFreeRange } from '../embedded/ports.ts'
import { checkout } from '../embedded/settings.ts'
import { postgresDirectory } from '../operator/postgres/testing/directory.ts'
import { compiledCommands } from '../operator/postgres/testing/install.ts'

export type Running = { api: string; token: string; docs: string; process: ChildProcess; readyAfterMs: number }
export type Exit = { code: number | null; stdout: string; stderr: string }

/** Every process below `pid`: first the process itself, then children before grandchildren. */
export async function processTree(pid: number): Promise<number[]> {
  const parents = new Map<number, number[]>()
  for (const entry of await readdir('/proc')) {
    if (!/^[0-9]+$/.test(entry)) continue
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => undefined)
    const parent = Number(stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    parents.set(parent, [...(parents.get(parent) ?? []), Number(entry)])
  }
  const tree = [pid]
  for (const member of tree) tree.push(...(parents.get(member) ?? []))
  return tree
}

export async function createHome(ports = 20) {
  const home = await mkdtemp(join(postgresDirectory, 'espalier-e2e-'))
  const range = await findFreeRange(gatewayHost, ports + 3)
  const environment: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    ESPALIER_HOME: home,
    ESPALIER_API_PORT: String(range.first),
    ESPALIER_HTTPS_PORT: String(range.first + 1),
    ESPALIER_PORTS: `${range.first + 2}-${range.last}`,
    ESPALIER_LOG: process.env.ESPALIER_LOG ?? 'warn',
    ESPALIER_POOL: process.env.ESPALIER_POOL ?? 'off',
    NODE_COMPILE_CACHE: compiledCommands(),
  }
  let current: ChildProcess | undefined

  const espalier = (args: string[], extra: NodeJS.ProcessEnv = {}): ChildProcess =>
    spawn(process.execPath, [join(checkout, 'bin/espalier.mjs'), ...args], {
      env: { ...environment, ...extra },
      stdio: ['ignore', 'pipe', 'pipe'],
    })

  return {
    path: home,
    environment,

    /** Runs a command until it exits. */
    async command(args: string[], extra?: NodeJS.ProcessEnv): Promise<Exit> {
      const child = espalier(args, extra)
      const exit: Exit = { code: null, stdout: '', stderr: '' }
      child.stdout?.on('data', chunk => (exit.stdout += chunk))
      child.stderr?.on('data', chunk => (exit.stderr += chunk))
      ;[exit.code] = await once(child, 'close')
      return exit
    },

    /** Starts `espalier run` and waits until it reports ready. */
    async run(): Promise<Running> {
      const start = performance.now()
      const child = espalier(['run'])
      current = child
      let output = ''
      let errors = ''
      child.stderr?.on('data', chunk => (errors += chunk))
      return new Promise<Running>((resolve, reject) => {
        child.once('close', code => reject(new Error(`espalier run ended with ${code}: ${errors}`)))
        child.stdout?.on('data', chunk => {
          output += chunk
          const field = (name: string) => new RegExp(`^${name} (.+)$`, 'm').exec(output)?.[1]
          const [api, token, docs] = ['API', 'TOKEN', 'DOCS'].map(field)
          if (!output.includes('Ready.') || api === undefined || token === undefined || docs === undefined) return
          resolve({ api, token, docs, process: child, readyAfterMs: performance.now() - start })
        })
      })
    },

    /** Kills the complete process tree at once, as a power failure would. */
    async kill(): Promise<void> {
      const child = current
      if (child?.pid === undefined || child.exitCode !== null) return
      const closed = once(child, 'exit')
      for (const pid of await processTree(child.pid)) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // The process has already ended with its parent.
        }
      }
      await closed
    },

    async stop(): Promise<void> {
      if (current === undefined || current.exitCode !== null || current.signalCode !== null) return
      const closed = once(current, 'exit')
      current.kill('SIGTERM')
      await closed
    },

    async remove(): Promise<void> {
      await this.stop()
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
export type Home = Awaited<ReturnType<typeof createHome>>
