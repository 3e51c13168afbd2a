/**
 * Ends what an earlier run of this runtime left behind, before anything starts on the same volumes. Found by the
 * records on disk and, whatever happened to those, by a look at every process of the machine: the marker in its
 * environment, or a Postgres working inside a volume.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Layout } from '../directories.ts'
import { endTrees } from './end.ts'
import { bootId, type ProcessRecord } from './launch.ts'
import { findOwned } from './scan.ts'
import { isAlive, isPostgres, type ProcessEntry, readProcess } from './table.ts'

/** How long a leftover may take to end by itself; a Postgres writes its shutdown checkpoint in this time, mostly. */
const graceMs = 5_000

const isSignal = (name: unknown): name is NodeJS.Signals => typeof name === 'string' && /^SIG[A-Z0-9]+$/.test(name)

/** A record as it was written; undefined for one that a crash cut short. */
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
 * Ends them all and waits until they are gone; asks again until a look finds none, since a process may have been
 * about to start another.
 * @returns how many there were
 * @throws RuntimeError `ProcessWouldNotEnd`
 */
export async function endLeftovers(layout: Layout, marker: string, logger: Logger): Promise<number> {
  const records = readRecords(layout.processes)
  const stopSignals = new Map(records.map(record => [record.pid, record.stopSignal]))
  const recorded = records.flatMap(record => readProcess(record.pid) ?? [])
  const ended = new Set<string>()
  for (let found: ProcessEntry[] = recorded; ; ) {
    const owned = await findOwned({ marker, directories: layout.places.map(({ volumes }) => volumes) })
    const all = new Map([...found, ...owned].map(entry => [entry.pid, entry]))
    if (all.size === 0) break
    // Only the tops of the trees are asked: a postmaster stops its own children.
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
