/** What the machine says of time: its clock, and how long it has run, which nobody sets. */
import { readFileSync } from 'node:fs'
import type { ClockReading } from './trust.ts'

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

/** Where the kernel does not say, this process knows at least how long it runs itself. */
const bootOfProcess = `process ${process.pid} ${Date.now()}`

export function readMachine(now: () => number): Omit<ClockReading, 'server'> {
  const boot = read('/proc/sys/kernel/random/boot_id')
  const uptime = Number.parseFloat(read('/proc/uptime') ?? '')
  const wall = now()
  return boot === undefined || Number.isNaN(uptime)
    ? { wall, elapsed: performance.now(), boot: bootOfProcess }
    : { wall, elapsed: uptime * 1000, boot }
}

/** The API server's clock: as it was told last, and on by the time that has passed since. What was told long ago is not known any more. */
export function followServerClock(elapsed = () => performance.now()) {
  const staleMs = 10 * 60_000
  let heard: { serverMs: number; at: number } | undefined
  return {
    heard: (serverMs: number): void => {
      heard = { serverMs, at: elapsed() }
    },
    now: (): number | undefined => {
      if (heard === undefined || elapsed() - heard.at > staleMs) return undefined
      return heard.serverMs + elapsed() - heard.at
    },
  }
}
