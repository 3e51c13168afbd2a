/**
 * Tells when a file may have changed, however that was done: written in place, replaced by a rename as editors do, or reached by links that
 * were turned, as Kubernetes does with mounted Secrets. Of what else happens in its folders nothing is heeded. It may tell once too often, and
 * within a second it tells what the kernel has not.
 */
import { type FSWatcher, lstatSync, readlinkSync, statSync, watch } from 'node:fs'
import { join, parse, resolve, sep } from 'node:path'

/** So long without another change before it is told; a file that is written in pieces is read once. */
const quietMs = 50
/** Told at the latest after so long, though it goes on. */
const longestMs = 90
const lookMs = 1_000
const mostLinks = 40

/** The names on the way to a file that may be turned, by their folder: every link, and the file itself. */
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

/** What differs where the file does. */
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

/** @returns what ends it */
export function watchFile(path: string, onChange: () => void): () => void {
  const watchers = new Map<string, { readonly watcher: FSWatcher; names: Set<string> }>()
  let told = safeStamp(path)
  let timer: NodeJS.Timeout | undefined
  let firstAt = 0

  const tell = () => {
    timer = undefined
    follow()
    told = safeStamp(path)
    onChange()
  }
  const note = () => {
    const now = performance.now()
    if (timer === undefined) firstAt = now
    else clearTimeout(timer)
    timer = setTimeout(tell, Math.max(0, Math.min(quietMs, firstAt + longestMs - now)))
  }

  /** Watches the folders that the way leads through now. */
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
      // A folder that goes is found again, or not, by looking.
      entry.watcher.on('error', () => {
        entry.watcher.close()
        watchers.delete(folder)
      })
      entry.watcher.unref()
      watchers.set(folder, entry)
    } catch {
      // Not there yet, or no watches left: looking has to do.
    }
  }

  follow()
  const looking = setInterval(() => {
    if (timer !== undefined) return
    follow()
    if (safeStamp(path) !== told) note()
  }, lookMs)
  looking.unref()
  return () => {
    clearInterval(looking)
    clearTimeout(timer)
    for (const { watcher } of watchers.values()) watcher.close()
  }
}
