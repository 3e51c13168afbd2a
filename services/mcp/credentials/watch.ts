/**
 * Reports that a file may have changed. Detects a write in place, a replacement by rename, as editors do, and changed
 * links, as Kubernetes updates mounted Secrets. Ignores other files in the directories. May report without a change.
 * Polling finds changes that the kernel does not report, within a second.
 */
import { type FSWatcher, lstatSync, readlinkSync, statSync, watch } from 'node:fs'
import { join, parse, resolve, sep } from 'node:path'

/** The time without changes before a report, so that a file written in pieces is read once. */
const quietMs = 50
/** The maximum delay of a report while changes continue. */
const longestMs = 90
const pollIntervalMs = 1_000
const mostLinks = 40

/** The names on a file's path that may change, by directory: every link, and the file itself. */
function namesOnTheWay(path: string): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>()
  const note = (folder: string, name: string) => {
    const known = names.get(folder)
    if (known === undefined) names.set(folder, new Set([name]))
    else known.add(name)
  }
  let links = 0
  const follow = (target: string): string => {
    const { root } = parse(target)
    let at = root
    const parts = target.slice(root.length).split(sep).filter(Boolean)
    for (const [index, part] of parts.entries()) {
      const next = join(at, part)
      const link = linkAt(next)
      if (link !== undefined && links++ < mostLinks) {
        note(at, part)
        at = follow(resolve(at, link))
      } else {
        if (index === parts.length - 1) note(at, part)
        at = next
      }
    }
    return at
  }
  follow(resolve(path))
  return names
}

function linkAt(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined
  } catch {
    return undefined
  }
}

/** Identifies the file's content. */
function stampOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true })
  return found === undefined ? '' : `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`
}

function safeStamp(path: string): string {
  try {
    return stampOf(path)
  } catch {
    return ''
  }
}

/** Returns a function that stops the watch. */
export function watchFile(path: string, onChange: () => void): () => void {
  const watchers = new Map<string, { readonly watcher: FSWatcher; names: Set<string> }>()
  let lastReported = safeStamp(path)
  let timer: NodeJS.Timeout | undefined
  let firstAt = 0

  const report = () => {
    timer = undefined
    follow()
    lastReported = safeStamp(path)
    onChange()
  }
  const note = () => {
    const now = performance.now()
    if (timer === undefined) firstAt = now
    else clearTimeout(timer)
    timer = setTimeout(report, Math.max(0, Math.min(quietMs, firstAt + longestMs - now)))
  }

  /** Watches the directories on the path as its links currently resolve. */
  function follow(): void {
    const wanted = namesOnTheWay(path)
    for (const [folder, { watcher }] of watchers) {
      if (wanted.has(folder)) continue
      watcher.close()
      watchers.delete(folder)
    }
    for (const [folder, names] of wanted) {
      const known = watchers.get(folder)
      if (known !== undefined) known.names = names
      else observe(folder, names)
    }
  }

  function observe(folder: string, names: Set<string>): void {
    try {
      const entry = { names, watcher: watch(folder, (_, name) => (name === null || entry.names.has(name)) && note()) }
      // Polling detects when a deleted directory exists again.
      entry.watcher.on('error', () => {
        entry.watcher.close()
        watchers.delete(folder)
      })
      entry.watcher.unref()
      watchers.set(folder, entry)
    } catch {
      // The directory does not exist yet, or the kernel has no free watches. Polling must suffice.
    }
  }

  follow()
  const looking = setInterval(() => {
    if (timer !== undefined) return
    follow()
    if (safeStamp(path) !== lastReported) note()
  }, pollIntervalMs)
  looking.unref()
  return () => {
    clearInterval(looking)
    clearTimeout(timer)
    for (const { watcher } of watchers.values()) watcher.close()
  }
}
