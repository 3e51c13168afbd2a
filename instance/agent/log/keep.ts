/**
 * Keeps the log of the Postgres beside it within its bounds, and passes on what comes to it. It hears of changes from the kernel
 * (inotify), so that a Postgres that writes nothing costs nothing; one that writes much is looked at once a second. Whatever goes
 * wrong is said once, and tried again with the next change.
 */
import { type FSWatcher, statfsSync, watch } from 'node:fs'
import { boundOf, surplusOf } from './bound.ts'
import { type LogDirectory, openLogDirectory } from './directory.ts'
import type { Forwarder } from './forward.ts'

type KeeperOptions = {
  path: string
  /** Whose log it is to be. */
  owner: string
  /** Absent: nothing is passed on. */
  forwarder: Forwarder | undefined
  /** Whether the volume may be written to at this moment. */
  mayWrite: () => boolean
  log: (line: string) => void
  /** For tests. */
  pauseMs?: number
  roomOf?: (path: string) => { size: number; free: number }
}

/** From a change to the look at it, and from one look to the next. */
const defaultPauseMs = 1_000
/** Where the kernel tells of no changes. */
const unwatchedMs = 60_000

function roomIn(path: string): { size: number; free: number } {
  const { blocks, bfree, bavail, bsize } = statfsSync(path)
  return { size: (blocks - bfree + bavail) * bsize, free: bavail * bsize }
}

function bound(directory: LogDirectory, room: { size: number; free: number }): void {
  const { remove, empty } = surplusOf(directory.files, boundOf(room))
  for (const name of remove) directory.remove(name)
  for (const name of empty) directory.empty(name)
}

/** Keeps it until the result is called. */
export function keepLog(options: KeeperOptions): () => void {
  const { path, owner, forwarder, mayWrite, log, pauseMs = defaultPauseMs, roomOf = roomIn } = options
  let timer: NodeJS.Timeout | undefined
  let watcher: FSWatcher | undefined
  let isOver = false
  let lastSaid = ''
  const attempt = (what: () => void) => {
    try {
      what()
    } catch (error) {
      const line = `the log: ${error instanceof Error ? error.message : error}`
      if (line !== lastSaid) log(line)
      lastSaid = line
    }
  }

  /** @returns whether there is more to do at once */
  function look(): boolean {
    const directory = openLogDirectory(path, owner)
    if (directory === undefined) return false
    let isMore = !mayWrite()
    try {
      if (!isMore) attempt(() => bound(directory, roomOf(path)))
      attempt(() => {
        isMore = (forwarder?.pass(directory) ?? false) || isMore
      })
    } finally {
      directory.close()
    }
    return isMore
  }
  const lookIn = (ms: number) => {
    if (isOver) return
    timer ??= setTimeout(() => {
      timer = undefined
      if (look()) lookIn(pauseMs)
      else if (watcher === undefined) lookIn(unwatchedMs)
    }, ms)
  }
  const unwatch = () => {
    watcher?.close()
    watcher = undefined
  }

  attempt(() => {
    watcher = watch(path, { persistent: false }, () => lookIn(pauseMs))
    watcher.on('error', error => {
      unwatch()
      attempt(() => {
        throw error
      })
      lookIn(unwatchedMs)
    })
  })
  lookIn(0)
  return () => {
    isOver = true
    clearTimeout(timer)
    unwatch()
  }
}
