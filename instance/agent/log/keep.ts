/**
 * Limits the size of Postgres's log, and forwards new entries. The kernel reports changes (inotify), so the keeper
 * needs no CPU time if Postgres logs nothing. It checks a busy log once a second. It logs an error once, and retries at
 * the next change.
 */
import { type FSWatcher, statfsSync, watch } from 'node:fs'
import { boundOf, surplusOf } from './bound.ts'
import { type LogDirectory, openLogDirectory } from './directory.ts'
import type { Forwarder } from './forward.ts'

type KeeperOptions = {
  path: string
  /** The expected owner of the log. */
  owner: string
  /** If absent, nothing is forwarded. */
  forwarder: Forwarder | undefined
  /** Whether writing to the volume is allowed now. */
  mayWrite: () => boolean
  log: (line: string) => void
  /** For tests. */
  pauseMs?: number
  spaceOf?: (path: string) => { size: number; free: number }
}

/** Delay between a change and the check, and minimum interval between checks. */
const defaultPauseMs = 1_000
/** Check interval if the directory cannot be watched. */
const unwatchedMs = 60_000

function spaceIn(path: string): { size: number; free: number } {
  const { blocks, bfree, bavail, bsize } = statfsSync(path)
  return { size: (blocks - bfree + bavail) * bsize, free: bavail * bsize }
}

function bound(directory: LogDirectory, space: { size: number; free: number }): void {
  const { remove, empty } = surplusOf(directory.files, boundOf(space))
  for (const name of remove) directory.remove(name)
  for (const name of empty) directory.empty(name)
}

/** Runs until the caller calls the returned function. */
export function keepLog(options: KeeperOptions): () => void {
  const { path, owner, forwarder, mayWrite, log, pauseMs = defaultPauseMs, spaceOf = spaceIn } = options
  let timer: NodeJS.Timeout | undefined
  let watcher: FSWatcher | undefined
  let isOver = false
  let lastLogged = ''
  const attempt = (verb: string, what: () => void) => {
    try {
      what()
    } catch (error) {
      const line = `cannot ${verb} the log: ${error instanceof Error ? error.message : error}`
      if (line !== lastLogged) log(line)
      lastLogged = line
    }
  }

  /** @returns whether work remains, so that the caller must check again after `pauseMs` */
  function readOnce(): boolean {
    const directory = openLogDirectory(path, owner)
    if (directory === undefined) return false
    let isMore = !mayWrite()
    try {
      if (!isMore) attempt('limit', () => bound(directory, spaceOf(path)))
      attempt('forward', () => {
        isMore = (forwarder?.pass(directory) ?? false) || isMore
      })
    } finally {
      directory.close()
    }
    return isMore
  }
  const readIn = (ms: number) => {
    if (isOver) return
    timer ??= setTimeout(() => {
      timer = undefined
      if (readOnce()) readIn(pauseMs)
      else if (watcher === undefined) readIn(unwatchedMs)
    }, ms)
  }
  const unwatch = () => {
    watcher?.close()
    watcher = undefined
  }

  attempt('watch', () => {
    watcher = watch(path, { persistent: false }, () => readIn(pauseMs))
    watcher.on('error', error => {
      unwatch()
      attempt('watch', () => {
        throw error
      })
      readIn(unwatchedMs)
    })
  })
  readIn(0)
  return () => {
    isOver = true
    clearTimeout(timer)
    unwatch()
  }
}
