/** Reads the machine's clocks: the time of day, and the time since boot, which cannot be set. */
import { readFileSync } from 'node:fs'
import type { ClockReading } from './trust.ts'

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

/** Identifies this process. Used if the kernel does not report its boot. */
const bootOfProcess = `process ${process.pid} ${Date.now()}`

export function readMachine(now: () => number): Omit<ClockReading, 'server'> {
  const boot = read('/proc/sys/kernel/random/boot_id')
  const uptime = Number.parseFloat(read('/proc/uptime') ?? '')
  const wall = now()
  return boot === undefined || Number.isNaN(uptime)
    ? { wall, elapsed: performance.now(), boot: bootOfProcess }
    : { wall, elapsed: uptime * 1000, boot }
}

/** The API server's clock: the last reported time, plus the time since then. Does not use an old report. */
export function followServerClock(elapsed = () => performance.now()) {
  const staleMs = 10 * 60_000
  let received: { serverMs: number; at: number } | undefined
  return {
    received: (serverMs: number): void => {
      received = { serverMs, at: elapsed() }
    },
    now: (): number | undefined => {
      if (received === undefined || elapsed() - received.at > staleMs) return undefined
      return received.serverMs + elapsed() - received.at
    },
  }
}
