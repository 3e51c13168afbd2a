/** Notices at once that a disk of volumes is full: Postgres says so only when it needs another segment of WAL. */
import { statfsSync } from 'node:fs'
import { roomBytes } from '../../../operator/member/pod/wal-probe.ts'

type DiskWatch = { isFull(): boolean; stop(): void }

const everyMs = 1000

function readFull(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize < roomBytes
  } catch {
    return false // a directory that is gone is another's to report
  }
}

/** `onFull` is called once each time one of them becomes full: a pool does so after the disk that it is on. */
export function watchDisk(directories: readonly string[], onFull: () => void): DiskWatch {
  let full = directories.filter(readFull)
  const timer = setInterval(() => {
    const before = full
    full = directories.filter(readFull)
    if (full.some(directory => !before.includes(directory))) onFull()
  }, everyMs).unref()
  return { isFull: () => full.length > 0, stop: () => clearInterval(timer) }
}
