/**
 * Keeps two drivers from using one pool. Each would delete unfinished entries of the other, and promise the same space
 * twice. It uses the kernel's lock on a file, through SQLite, because Node has no call for such a lock. The lock ends
 * with the process. It works between containers that see the same pool, whatever else they share.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'

type LockOptions = {
  /** The lock file. It is created if it is missing. */
  path: string
  /** Aborts the wait. */
  signal?: AbortSignal | undefined
  /** Delay between two attempts, in ms. */
  retryMs?: number | undefined
  logger: Logger
}

const defaultRetryMs = 1000
/** How often a waiting driver logs that it waits. */
const logEveryMs = 60_000
/** SQLITE_BUSY: another process has the lock. */
const busy = 5

/**
 * Waits for the lock, and logs its holder meanwhile.
 * @returns a function that releases the lock
 * @throws if the file cannot be locked at all; the signal's reason if the signal aborts the wait
 */
export async function acquireLock({
  path,
  signal,
  retryMs = defaultRetryMs,
  logger,
}: LockOptions): Promise<() => void> {
  let loggedAt = Number.NEGATIVE_INFINITY
  for (;;) {
    signal?.throwIfAborted()
    const release = tryLock(path)
    if (release !== undefined) return release
    if (performance.now() - loggedAt >= logEveryMs) {
      loggedAt = performance.now()
      logger.warn({ lock: path, holder: holderOf(path) }, 'another driver uses this pool; waiting until it ends')
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
  recordHolder(path)
  return () => database.close()
}

const holderFile = (path: string): string => `${path}.holder`

/** For the message of a waiting driver. Failures are ignored, because a full pool must still be served. */
function recordHolder(path: string): void {
  const text = `process ${process.pid} of ${hostname()}, since ${new Date().toISOString()}`
  try {
    writeFileSync(holderFile(path), `${text}\n`, { mode: 0o600 })
  } catch {
    // The lock works without this text.
  }
}

function holderOf(path: string): string {
  try {
    return readFileSync(holderFile(path), 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
