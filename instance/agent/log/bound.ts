/**
 * How much of a volume the log may take, and which of its files go for it: the oldest first. Postgres writes on in the newest of each
 * kind, which is never removed; one that has grown past everything, since Postgres could not turn it over, is emptied, and goes on from
 * there. Pure.
 */
import { fileBytes } from '../../log/directory.ts'
import type { LogFile } from './directory.ts'

const MiB = 2 ** 20

/** A fiftieth of the volume, within limits: less is no log, and more is more than is ever read of it. */
const share = 0.02
const [least, most] = [16 * MiB, 256 * MiB]
/** What is left of it on a volume that is all but full: what Postgres writes in now, and the file before. */
const leastOfAll = 2 * fileBytes
/** More are not held, however small they are: each is opened and looked at. */
const mostFiles = 500

/** In bytes. A log is worth less than the data: where less is free than it may take, it gives way. */
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
