/** Merges two logs: the log on the volume, and the pod's output. They have no entries in common. Pure. */
import { type LogEntry, newestFirst } from '../../instance/log/entry.ts'
import type { VolumeLog } from './volume-log.ts'

/** The newest entries, newest first, up to a gap: there the log on the volume was not read to its end. */
export function merged({ entries, isWhole }: VolumeLog, printed: readonly LogEntry[], most: number): LogEntry[] {
  const oldest = entries.at(-1)?.timestamp
  const isBeyond = ({ timestamp }: LogEntry) =>
    !isWhole && oldest !== undefined && Date.parse(timestamp) < Date.parse(oldest)
  return newestFirst([...entries, ...printed.filter(entry => !isBeyond(entry))]).slice(0, most)
}
