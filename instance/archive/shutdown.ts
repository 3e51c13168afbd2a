/**
 * Waits until Postgres has ended. A pod stops all containers at the same time, and Postgres archives its last segment
 * during shutdown, with three attempts. If the agent ended first, each shutdown would take 15 seconds longer, and this
 * segment would be missing in the archive.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readIfPresent } from '../files.ts'

type Times = {
  /** How long Postgres may take to start its shutdown, in ms: containers receive the signal one after another. */
  beginMs: number
  /** How long the shutdown may take, in ms. */
  endMs: number
  pollMs: number
}

const times: Times = { beginMs: 1_000, endMs: 600_000, pollMs: 50 }

/** Postgres's state: the eighth line of its lock file (utils/pidfile.h). */
const statusOf = (data: string): string | undefined =>
  readIfPresent(join(data, 'postmaster.pid'))?.split('\n')[7]?.trim()

/** Resolves once Postgres has ended, or after `beginMs` if Postgres does not start to shut down. */
export async function postgresEnded(data: string, { beginMs, endMs, pollMs }: Times = times): Promise<void> {
  const start = Date.now()
  for (;;) {
    const status = statusOf(data)
    const timeoutMs = status === 'stopping' ? endMs : beginMs
    if (status === undefined || Date.now() - start >= timeoutMs) return
    await delay(pollMs)
  }
}
