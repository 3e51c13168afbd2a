/** The memory and CPU time of this process and, on Linux, of its children. */
import { readFileSync } from 'node:fs'

type Usage = { readonly memoryBytes: number; readonly cpuSeconds: number }

/** A server has one or two children. Further children are not counted. */
const mostProcesses = 16
/** Linux reports times to programs in this unit, whatever unit the kernel uses. */
const ticksPerSecond = 100

const readText = (path: string): string => readFileSync(path, 'utf8')

/** `proc`: the path of the proc file system. */
export function usageOf(pid: number, proc = '/proc'): Usage {
  let [memoryBytes, ticks] = [0, 0]
  const waiting = [pid]
  for (let read = 0; read < mostProcesses; read += 1) {
    const next = waiting.shift()
    if (next === undefined) break
    try {
      memoryBytes += residentBytes(readText(`${proc}/${next}/status`))
      ticks += ticksOf(readText(`${proc}/${next}/stat`))
      const children = readText(`${proc}/${next}/task/${next}/children`)
      waiting.push(...children.split(' ').filter(Boolean).map(Number))
    } catch {
      // The process has exited, or the kernel lists no children.
    }
  }
  if (memoryBytes === 0) return ownUsage()
  return { memoryBytes, cpuSeconds: ticks / ticksPerSecond }
}

const residentBytes = (status: string): number => 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0)

/**
 * The process's own CPU time, and that of exited children for which it has waited. The program's name, in parentheses,
 * may contain any character.
 */
function ticksOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
  return fields.slice(11, 15).reduce((total, field) => total + Number(field), 0)
}

function ownUsage(): Usage {
  const { user, system } = process.cpuUsage()
  return { memoryBytes: process.memoryUsage.rss(), cpuSeconds: (user + system) / 1e6 }
}
