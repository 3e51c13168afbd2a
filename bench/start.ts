/**
 * Measures `make run` in a new clone with a filled npm cache: the time until the API first returns 200, and the idle
 * memory of all processes without databases. The baseline is the installation of the packages alone, in a second clone.
 * Then measures the processor time of `espalier db list`, against `node -e 0`.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processTree } from '../e2e/process.ts'
import { findFreeRange } from '../embedded/ports.ts'
import { checkout } from '../embedded/settings.ts'
import { against, print } from './statistics.ts'

const root = await mkdtemp(join(tmpdir(), 'espalier-bench-start-'))
// If root runs the benchmark, databases run as another user, which must be able to enter this directory.
await chmod(root, 0o711)

async function clone(name: string): Promise<string> {
  const directory = join(root, name)
  const { status } = spawnSync('git', ['clone', '--quiet', '--local', checkout, directory])
  if (status !== 0) throw new Error('git clone failed')
  return directory
}

/** The environment of a user's shell, whose PATH does not have this benchmark's Node. */
const environment = {
  ...process.env,
  PATH: (process.env.PATH ?? '')
    .split(':')
    .filter(entry => !entry.includes('node_modules'))
    .join(':'),
}

async function proportionalMemory(pid: number): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) / 1024
}

/** Returns the mean processor time of 20 runs, in ms. */
function processorTime(program: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): number {
  const script = 'for i in {1..20}; do "$0" "$@" > /dev/null || exit; done; times'
  const { status, stdout } = spawnSync('bash', ['-c', script, program, ...args], {
    encoding: 'utf8',
    env: { ...environment, ...more },
  })
  const [user, system] = [...(stdout.split('\n')[1] ?? '').matchAll(/(\d+)m([\d.]+)s/g)].map(
    ([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds),
  )
  if (status !== 0 || user === undefined || system === undefined) throw new Error(`${args.join(' ')} failed`)
  return ((user + system) / 20) * 1000
}

async function firstAnswer(url: string): Promise<void> {
  for (;;) {
    const response = await fetch(url).catch(() => undefined)
    if (response?.status === 200) return
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

try {
  const packagesStart = performance.now()
  const installed = spawnSync('make', ['-s', 'install'], { cwd: await clone('packages'), env: environment })
  if (installed.status !== 0) throw new Error(`make install failed: ${installed.stderr}`)
  const packages = (performance.now() - packagesStart) / 1000

  const range = await findFreeRange('127.0.0.1', 21)
  const cwd = await clone('run')
  const start = performance.now()
  const child = spawn('make', ['-s', 'run'], {
    cwd,
    env: {
      ...environment,
      ESPALIER_HOME: join(root, 'home'),
      ESPALIER_API_PORT: String(range.first),
      ESPALIER_HTTPS_PORT: String(range.first + 1),
      ESPALIER_PORTS: `${range.first + 2}-${range.last}`,
    },
    stdio: 'ignore',
  })
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`make run ended with ${code}`)
  })
  await Promise.race([ended, firstAnswer(`http://127.0.0.1:${range.first}/managed/v1/openapi.json`)])
  ended.catch(() => {}) // from here on, the benchmark stops it
  const total = (performance.now() - start) / 1000
  await new Promise(resolve => setTimeout(resolve, 5000))
  const members = await processTree(child.pid ?? 0)
  const memory = (await Promise.all(members.map(proportionalMemory))).reduce((sum, part) => sum + part, 0)
  const home = { ESPALIER_HOME: join(root, 'home'), ESPALIER_API_PORT: String(range.first) }
  const list = [join(cwd, 'bin/espalier.mjs'), 'db', 'list']
  processorTime(process.execPath, list, home) // fills the cache of compiled modules
  const command = processorTime(process.execPath, list, home)
  const bare = processorTime(process.execPath, ['-e', '0'])
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  for (const member of members.slice(1)) process.kill(member, 'SIGTERM')
  await exited

  print('fresh clone: from make run to the first response 200', against(total, 30, 'at most', ' s'))
  print(
    '  installation of packages alone',
    `${packages.toFixed(1)} s; ${(total / packages).toFixed(2)} times that in total`,
  )
  print(
    'idle memory of the process tree',
    `${memory.toFixed(0)} MiB in ${members.length} processes (proportional set size)`,
  )
  print('espalier db list', against(command, 200, 'at most', ' ms of processor time'))
  print('  Node alone', `${bare.toFixed(0)} ms; ${(command / bare).toFixed(1)} times that in total`)
} finally {
  await rm(root, { recursive: true, force: true, maxRetries: 5 })
}
