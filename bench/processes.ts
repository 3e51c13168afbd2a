/** What the kernel says of a running program: processor time and memory, of it and of the processes it has started (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Clock ticks per second in /proc; the same on every Linux that Node runs on. */
const ticks = 100

/** Undefined once a process has ended. */
function ofLiving<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap(thread =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )

/** A process and all that descend from it. */
export function processTree(pid: number): number[] {
  return [pid, ...(ofLiving(() => childrenOf(pid)) ?? []).flatMap(processTree)]
}

function secondsOf(pid: number): number {
  // The name in brackets may hold spaces; field 3 stands after it, times are fields 14 and 15.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticks
}

/** Seconds of processor time, user and system, that a process and its living descendants have taken since they started. */
export const processorSeconds = (pid: number): number =>
  processTree(pid).reduce((sum, one) => sum + (ofLiving(() => secondsOf(one)) ?? 0), 0)

/** MiB: resident now, or at most since the start or `forgetPeak`. */
export function memoryMiB(pid: number, which: 'now' | 'peak'): number {
  const field = which === 'now' ? 'VmRSS' : 'VmHWM'
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}

/** Begins the peak again at what is resident now. */
export const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5')

/** The process of the Postgres whose data directory this is. */
export const postmasterOf = (dataDirectory: string): number =>
  Number(readFileSync(`${dataDirectory}/postmaster.pid`, 'utf8').split('\n')[0])
