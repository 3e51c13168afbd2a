/** Detects at once that a disk with volumes is full. Postgres detects it only when it needs another WAL segment. */
import { statfsSync } from 'node:fs'
import { leastFreeBytes } from '../../../operator/member/pod/wal-probe.ts'

type DiskWatch = { isFull(): boolean; stop(): void }

const everyMs = 1000

function readFull(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize < leastFreeBytes
  } catch {
    return false // other code reports that the directory is missing
  }
}

/** `onFull` is called each time one of the disks becomes full: a pool becomes full after its disk. */
export function watchDisk(directories: readonly string[], onFull: () => void): DiskWatch {
  let full = directories.filter(readFull)
  const timer = setInterval(() => {
    const before = full
    full = directories.filter(readFull)
    if (full.some(directory => !before.includes(directory))) onFull()
  }, everyMs).unref()
  return { isFull: () => full.length > 0, stop: () => clearInterval(timer) }
}
