/**
 * The machine's process table, read from /proc (proc_pid_stat(5), proc_pid_environ(5)). A process is identified by its
 * pid and start time, so that a reused pid does not identify the previous process.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'

export type ProcessEntry = {
  pid: number
  parent: number
  /** R, S, D, T, t, Z, X ... as in proc_pid_stat(5). */
  state: string
  /** Clock ticks between boot and process start. */
  startTime: string
}

/** Identifies a process uniquely, even if its pid is reused. */
export type ProcessIdentity = { pid: number; startTime: string }

/** One line of /proc/<pid>/stat. The command is in parentheses and may contain any character. */
export function parseStat(line: string): ProcessEntry | undefined {
  const close = line.lastIndexOf(')')
  const pid = Number.parseInt(line, 10)
  const rest = line.slice(close + 2).split(' ')
  const [state, parent] = rest
  const startTime = rest[19]
  if (close < 0 || !Number.isInteger(pid) || !state || !parent || !startTime) return undefined
  return { pid, parent: Number(parent), state, startTime }
}

export const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined // the process ended meanwhile, or belongs to another user
  }
}

export const link = (path: string): string | undefined => {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

export function readProcess(pid: number): ProcessEntry | undefined {
  const line = read(`/proc/${pid}/stat`)
  return line === undefined ? undefined : parseStat(line)
}

export function listPids(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter(pid => Number.isInteger(pid) && pid > 0)
}

export function readProcesses(): ProcessEntry[] {
  return listPids().flatMap(pid => readProcess(pid) ?? [])
}

/** Whether exactly this process still runs. A process that has ended and waits to be reaped (Z, X) does not run. */
export function isAlive({ pid, startTime }: ProcessIdentity): boolean {
  const entry = readProcess(pid)
  return entry !== undefined && entry.startTime === startTime && entry.state !== 'Z' && entry.state !== 'X'
}

/** All descendants of `roots`, parents before children, without the roots. */
export function descendantsOf(table: ProcessEntry[], roots: number[]): ProcessEntry[] {
  const children = Map.groupBy(table, entry => entry.parent)
  const seen = new Set(roots)
  const found: ProcessEntry[] = []
  for (let queue = [...roots]; queue.length > 0; ) {
    const next: number[] = []
    for (const parent of queue) {
      for (const child of children.get(parent) ?? []) {
        if (seen.has(child.pid)) continue
        seen.add(child.pid)
        found.push(child)
        next.push(child.pid)
      }
    }
    queue = next
  }
  return found
}

/** Whether all threads of a process are stopped (T) or ended. The state of the leader alone is not enough. */
export function isStopped(pid: number): boolean {
  let threads: string[]
  try {
    threads = readdirSync(`/proc/${pid}/task`)
  } catch {
    return true // the process has ended, so it writes nothing more
  }
  return threads.every(thread => {
    const line = read(`/proc/${pid}/task/${thread}/stat`)
    const state = line === undefined ? 'X' : parseStat(line)?.state
    return state === 'T' || state === 't' || state === 'Z' || state === 'X'
  })
}

export function isPostgres(pid: number): boolean {
  const executable = link(`/proc/${pid}/exe`)?.replace(/ \(deleted\)$/, '')
  return executable !== undefined && basename(executable) === 'postgres'
}

/** Sends a signal to exactly this process. Returns false if it has ended. */
export function signal(target: ProcessIdentity, name: NodeJS.Signals): boolean {
  if (!isAlive(target)) return false
  try {
    return process.kill(target.pid, name)
  } catch {
    return false
  }
}
