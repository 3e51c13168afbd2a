/**
 * A pod stops its containers at the same time. Postgres archives its last segment during shutdown, and tries three
 * times: if the agent ended first, each shutdown would take a quarter of a minute longer, and that segment would be
 * missing in the archive.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readIfPresent } from '../files.ts'

type Times = {
  /** How long Postgres may take to start its shutdown, in ms: the signals arrive one after another. */
  beginMs: number
  /** How long it may take to end, in ms. */
  endMs: number
  pollMs: number
}

const times: Times = { beginMs: 1_000, endMs: 600_000, pollMs: 50 }

/** The state that Postgres writes into the eighth line of its lock file (utils/pidfile.h). */
const statusOf = (data: string): string | undefined =>
  readIfPresent(join(data, 'postmaster.pid'))?.split('\n')[7]?.trim()

/** Resolves once Postgres has ended, or at once if it is not shutting down. */
export async function postgresEnded(data: string, { beginMs, endMs, pollMs }: Times = times): Promise<void> {
  const start = Date.now()
  for (;;) {
    const status = statusOf(data)
    const timeoutMs = status === 'stopping' ? endMs : beginMs
    if (status === undefined || Date.now() - start >= timeoutMs) return
    await delay(pollMs)
  }
}
