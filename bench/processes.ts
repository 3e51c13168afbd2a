/** Reads processor time and memory of a process and its descendants from the kernel (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Clock ticks per second in /proc. Every Linux that Node supports has this value. */
const ticks = 100

/** Returns undefined if the process has ended. */
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

/** Returns the ids of a process and all its descendants. */
export function processTree(pid: number): number[] {
  return [pid, ...(ofLiving(() => childrenOf(pid)) ?? []).flatMap(processTree)]
}

function secondsOf(pid: number): number {
  // The process name in parentheses may contain spaces. Field 3 follows it; fields 14 and 15 are the times.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticks
}

/** Returns the processor seconds (user and system) of a process and its living descendants since their start. */
export const processorSeconds = (pid: number): number =>
  processTree(pid).reduce((sum, one) => sum + (ofLiving(() => secondsOf(one)) ?? 0), 0)

/** Returns the resident memory in MiB: the current size, or the maximum since the start or since `forgetPeak`. */
export function memoryMiB(pid: number, which: 'now' | 'peak'): number {
  const field = which === 'now' ? 'VmRSS' : 'VmHWM'
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}

/** Resets the peak to the current resident size. */
export const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5')

/** Returns the process id of the Postgres with this data directory. */
export const postmasterOf = (dataDirectory: string): number =>
  Number(readFileSync(`${dataDirectory}/postmaster.pid`, 'utf8').split('\n')[0])
