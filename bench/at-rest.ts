/**
 * Measures the processor time of an embedded installation with idle databases: of Espalier's process and of its
 * Postgres servers. The baseline is the same servers on the same data in the same run, which the benchmark starts
 * without Espalier.
 *
 *     node bench/at-rest.ts [databases] [seconds]
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readlinkSync, statSync } from 'node:fs'
import { createApiClient } from '../e2e/client.ts'
import { createHome } from '../e2e/process.ts'
import { processTree } from './processes.ts'
import { against, print } from './statistics.ts'

const databases = Number(process.argv[2] ?? 40)
const seconds = Number(process.argv[3] ?? 300)
/** The wait until caches, first reconciliations, autovacuum, the checkpoint and agents are done with the new data. */
const stableAfterMs = 660_000
/** The wait of the baseline. It is shorter, because its servers start with the data of the stopped installation. */
const stableAloneAfterMs = 150_000
/** Figures of an earlier version, in cores. It checked each of 40 databases every 30 s, and probed it every 5 s. */
const before = { databases: 40, ours: 0.035, caused: 0.065 }
const ticks = 100

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** Returns the processor seconds of a process, including its ended children. */
function secondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '')
  return stat
    .split(' ')
    .slice(11, 15)
    .reduce((sum, field) => sum + Number(field) / ticks, 0)
}

const isPostmaster = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === '-D'
  } catch {
    return false
  }
}

/** Removes descendants of other listed processes: a new child of a postmaster has the postmaster's command line. */
function outermost(pids: number[]): number[] {
  const below = new Set(pids.flatMap(pid => processTree(pid).slice(1)))
  return pids.filter(pid => !below.has(pid))
}

/** Returns 0 for an ended process, because the kernel adds its time to its parent's. */
const secondsIfThere = (pid: number): number => {
  try {
    return secondsOf(pid)
  } catch {
    return 0
  }
}

/** Returns the processor seconds of a postmaster and all its processes, including the ended ones. */
const serverSeconds = (postmaster: number): number => sum(processTree(postmaster).map(secondsIfThere))

const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0)

/** Measures how many cores the servers and Espalier's processes use on average. */
async function measure(
  postmasters: number[],
  us: number[],
  settlesMs: number,
): Promise<{ servers: number; ours: number }> {
  const read = () => ({ servers: sum(postmasters.map(serverSeconds)), ours: sum(us.map(secondsIfThere)) })
  await pause(settlesMs)
  const first = read()
  const start = performance.now()
  await pause(seconds * 1000)
  const elapsed = (performance.now() - start) / 1000
  const last = read()
  return { servers: (last.servers - first.servers) / elapsed, ours: (last.ours - first.ours) / elapsed }
}

type Command = {
  uid: number
  gid: number
  program: string
  args: string[]
  cwd: string
  environment: NodeJS.ProcessEnv
}

const textOf = (pid: number, file: 'cmdline' | 'environ'): string[] =>
  readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0').slice(0, -1)

function commandOf(pid: number): Command {
  const environment = textOf(pid, 'environ').map(entry => [entry.split('=', 1)[0] ?? '', entry.replace(/^[^=]*=/, '')])
  const { uid, gid } = statSync(`/proc/${pid}`)
  return {
    ...{ uid, gid },
    program: readlinkSync(`/proc/${pid}/exe`),
    args: textOf(pid, 'cmdline').slice(1),
    cwd: '/',
    environment: Object.fromEntries(environment),
  }
}

function startByHand({ program, args, cwd, environment, uid, gid }: Command): ChildProcess {
  return spawn(program, args, {
    cwd,
    env: environment,
    stdio: 'ignore',
    ...(process.getuid?.() === 0 ? { uid, gid } : {}),
  })
}

/** Creates the databases, a few at a time. */
async function create(api: ReturnType<typeof createApiClient>): Promise<void> {
  const queue = Array.from({ length: databases }, (_, index) => `rest${index}`)
  const work = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const { body } = await api.create({ name }, {})
      const done = await api.call('GET', `/databases/${body.id}`, undefined, { prefer: 'wait=60' })
      if (done.body.status !== 'available') throw new Error(`${name} is ${done.body.status}`)
    }
  }
  await Promise.all([work(), work()])
}

const home = await createHome(databases + 2)
try {
  const running = await home.run()
  await create(createApiClient(running.api, running.token))
  const tree = processTree(running.process.pid ?? 0)
  const postmasters = outermost(tree.filter(isPostmaster))
  if (postmasters.length !== databases) throw new Error(`${postmasters.length} servers run, not ${databases}`)
  const commands = postmasters.map(commandOf)
  const ofServers = new Set(postmasters.flatMap(processTree))
  const managed = await measure(
    postmasters,
    tree.filter(pid => !ofServers.has(pid)),
    stableAfterMs,
  )
  await home.stop()

  const servers = commands.map(startByHand)
  const alone = await measure(
    servers.map(({ pid = 0 }) => pid),
    [],
    stableAloneAfterMs,
  )
  await Promise.all(
    servers.map(server => {
      const ended = once(server, 'exit')
      server.kill('SIGQUIT')
      return ended
    }),
  )

  const percent = (part: number): string => `${(part * 100).toFixed(2)} %`
  const share = databases / before.databases
  const caused = Math.max(0, managed.servers - alone.servers)
  print(`${databases} databases at rest for ${seconds} s: processes of Espalier`, `${percent(managed.ours)} of a core`)
  print(
    '  relative to the earlier measurement',
    against(managed.ours / (before.ours * share), 0.1, 'at most', ' times'),
  )
  print(
    'Postgres servers of these databases',
    `${percent(managed.servers)} of a core, without Espalier ${percent(alone.servers)}`,
  )
  print(
    '  caused by Espalier, relative to earlier',
    `${percent(caused)}, ${against(caused / (before.caused * share), 0.1, 'at most', ' times')}`,
  )
} finally {
  await home.remove()
}
