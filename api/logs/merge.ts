/** One log of two: what is kept on the volume, and what the pod has printed. Neither has what the other has. Pure. */
import { type LogEntry, newestFirst } from '../../instance/log/entry.ts'
import type { Kept } from './kept.ts'

/** The newest entries, newest first, and nothing on the other side of a gap: there the log on the volume was not read to its end. */
export function merged({ entries, isWhole }: Kept, printed: readonly LogEntry[], most: number): LogEntry[] {
  const oldest = entries.at(-1)?.timestamp
  const isBeyond = ({ timestamp }: LogEntry) =>
    !isWhole && oldest !== undefined && Date.parse(timestamp) < Date.parse(oldest)
  return newestFirst([...entries, ...printed.filter(entry => !isBeyond(entry))]).slice(0, most)
}
