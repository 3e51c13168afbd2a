/**
 * Keeps two drivers from one pool: each would remove what the other is making, and promise the same room twice. The lock
 * is the kernel's own lock on a file, taken through SQLite (Node has no call for it): it goes with the process however
 * that ends, and it holds between containers that see the same pool, whatever else they share.
 */
// @ts-nocheck

import { readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'

type LockOptions = {
  /** The file that is locked; made where it is not there. */
  path: string
  /** Ends the wait for whoever has it. */
  signal?: AbortSignal | undefined
  /** How long to wait between two tries, in ms. */
  retryMs?: number | undefined
  logger: Logger
}

const defaultRetryMs = 1000
/** How often whoever waits says so. */
const sayEveryMs = 60_000
/** SQLITE_BUSY: somebody else has it. */
const busy = 5

/**
 * Waits until nobody else has the lock, and says who has it meanwhile.
 * @returns what gives it back
 * @throws where the file cannot be locked at all; the signal's reason where that ends the wait
 */
export async function holdLock({ path, signal, retryMs = defaultRetryMs, logger }: LockOptions): Promise<() => void> {
  let saidAt = Number.NEGATIVE_INFINITY
  for (;;) {
    signal?.throwIfAborted()
    const release = tryLock(path)
    if (release !== undefined) return release
    if (performance.now() - saidAt >= sayEveryMs) {
      saidAt = performance.now()
      logger.warn({ lock: path, holder: holderOf(path) }, 'another driver has this pool; waiting until it ends')
    }
    await delay(retryMs, undefined, { signal }).catch(() => signal?.throwIfAborted())
  }
}

function tryLock(path: string): (() => void) | undefined {
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (error instanceof Error && 'errcode' in error && error.errcode === busy) return undefined
    throw new Error(`${path} cannot be locked: ${error instanceof Error ? error.message : error}`, { cause: error })
  }
  tellHolder(path)
  return () => database.close()
}

const holderFile = (path: string): string => `${path}.holder`

/** For the message to whoever waits; a full pool is no reason not to serve it. */
function tellHolder(path: string): void {
  const text = `process ${process.pid} of ${hostname()}, since ${new Date().toISOString()}`
  try {
    writeFileSync(holderFile(path), `${text}\n`, { mode: 0o600 })
  } catch {
    // The lock holds without it.
  }
}

function holderOf(path: string): string {
  try {
    return readFileSync(holderFile(path), 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
