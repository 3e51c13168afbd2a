/**
 * Ends processes of an earlier run of this runtime, before anything starts on the same volumes. It finds them by the
 * records on disk. Because records can be missing, it also checks every process of the machine. A process matches if
 * its environment contains the runtime's variable, or if it is a Postgres that works inside a volume.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Layout } from '../directories.ts'
import { endTrees } from './end.ts'
import { bootId, type ProcessRecord } from './launch.ts'
import { findOwned } from './scan.ts'
import { isAlive, isPostgres, type ProcessEntry, readProcess } from './table.ts'

/** How long an old process may take to end by itself. This is usually enough for Postgres's shutdown checkpoint. */
const graceMs = 5_000

const isSignal = (name: unknown): name is NodeJS.Signals => typeof name === 'string' && /^SIG[A-Z0-9]+$/.test(name)

/** Parses a record; undefined if a crash truncated it. */
export function parseRecord(text: string): ProcessRecord | undefined {
  try {
    const { pid, startTime, boot, stopSignal }: Record<string, unknown> = JSON.parse(text)
    if (!Number.isInteger(pid) || typeof startTime !== 'string' || typeof boot !== 'string') return undefined
    return { pid: Number(pid), startTime, boot, stopSignal: isSignal(stopSignal) ? stopSignal : 'SIGTERM' }
  } catch {
    return undefined
  }
}

function readRecords(directory: string): ProcessRecord[] {
  const boot = bootId()
  return readdirSync(directory).flatMap(name => {
    const record = parseRecord(readFileSync(join(directory, name), 'utf8'))
    return record !== undefined && record.boot === boot && isAlive(record) ? [record] : []
  })
}

/**
 * Ends all these processes and waits for their end. Repeats until it finds none, since a process may have just started
 * another process.
 * @returns their number
 * @throws RuntimeError `ProcessWouldNotEnd`
 */
export async function endLeftovers(layout: Layout, marker: string, logger: Logger): Promise<number> {
  const records = readRecords(layout.processes)
  const stopSignals = new Map(records.map(record => [record.pid, record.stopSignal]))
  const recorded = records.flatMap(record => readProcess(record.pid) ?? [])
  const ended = new Set<string>()
  for (let found: ProcessEntry[] = recorded; ; ) {
    const owned = await findOwned({ marker, directories: layout.locations.map(({ volumes }) => volumes) })
    const all = new Map([...found, ...owned].map(entry => [entry.pid, entry]))
    if (all.size === 0) break
    // Only the roots of the trees get the signal: a postmaster stops its own children.
    const tops = [...all.values()].filter(entry => !all.has(entry.parent))
    logger.warn({ processes: tops.map(top => top.pid) }, 'ending processes of an earlier run')
    const stopSignalOf = (pid: number) => stopSignals.get(pid) ?? (isPostgres(pid) ? 'SIGINT' : 'SIGTERM')
    await endTrees(
      tops.map(({ pid, startTime }) => ({ pid, startTime, stopSignal: stopSignalOf(pid) })),
      graceMs,
    )
    for (const { pid, startTime } of all.values()) ended.add(`${pid} ${startTime}`)
    found = []
  }
  for (const name of readdirSync(layout.processes)) rmSync(join(layout.processes, name), { force: true })
  return ended.size
}
