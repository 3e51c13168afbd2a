/**
 * Decides how much of a volume the log may use, and which files to delete: all files of 0 bytes, and the oldest files
 * above the limit. The newest file of each kind is never deleted, because Postgres is writing it. If the log still
 * exceeds its limit, the agent truncates the larger of these files, and then the other if needed. Pure.
 */
import { fileBytes } from '../../log/directory.ts'
import type { LogFile } from './directory.ts'

const MiB = 2 ** 20

const share = 0.02
const [least, most] = [16 * MiB, 256 * MiB]
/** The size on an almost full volume: the file that Postgres is writing, and the previous file. */
const leastOfAll = 2 * fileBytes
/** Maximum number of files, because each file is opened and read. */
const mostFiles = 500

/**
 * The log's limit in bytes. If less space than this is free, the limit is lower, because the data are more important
 * than the log.
 */
export function boundOf({ size, free }: { size: number; free: number }): number {
  const bound = Math.min(most, Math.max(least, Math.floor(size * share)))
  return free < bound ? leastOfAll : bound
}

type Surplus = { remove: string[]; empty: string[] }

/** `files`: the oldest of each kind first. */
export function surplusOf(files: readonly LogFile[], bound: number): Surplus {
  const inUse = new Set((['json', 'log'] as const).flatMap(of => files.findLast(({ kind }) => kind === of)?.name ?? []))
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  let count = files.length
  const remove: string[] = []
  for (const file of files) {
    if (inUse.has(file.name)) continue
    if (file.bytes > 0 && bytes <= bound && count <= mostFiles) continue
    remove.push(file.name)
    bytes -= file.bytes
    count -= 1
  }
  const empty: string[] = []
  const largestFirst = files.filter(({ name }) => inUse.has(name)).sort((left, right) => right.bytes - left.bytes)
  for (const file of largestFirst) {
    if (bytes <= bound) break
    empty.push(file.name)
    bytes -= file.bytes
  }
  return { remove, empty }
}
