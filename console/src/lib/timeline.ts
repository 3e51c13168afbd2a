/** Computes the positions of backups and of the recovery window on a timeline. Pure. */
type Window = { earliest_time: string | null; latest_time: string | null; gaps: { from: string; to: string }[] }
type Backup = { id: string; created_at: string; status: string; metadata: Record<string, unknown> }

type Point = { id: string; at: number; position: number }
type Part = { from: number; to: number }
type Timeline = { from: number; to: number; points: Point[]; reachable: Part[] }

/** Returns the time of a backup's data. Returns the creation time if the backup has no `cut_at`. */
export function cutOf({ metadata, created_at: created }: Pick<Backup, 'metadata' | 'created_at'>): number {
  const cut = typeof metadata.cut_at === 'string' ? Date.parse(metadata.cut_at) : Number.NaN
  return Number.isNaN(cut) ? Date.parse(created) : cut
}

/** Returns the parts of the recovery window outside its gaps, in ms since the epoch. */
export function reachableOf(window: Window | undefined): Part[] {
  if (window?.earliest_time == null || window.latest_time == null) return []
  const end = Date.parse(window.latest_time)
  const parts: Part[] = []
  let from = Date.parse(window.earliest_time)
  const gaps = window.gaps.map(gap => ({ from: Date.parse(gap.from), to: Date.parse(gap.to) }))
  for (const gap of gaps.toSorted((a, b) => a.from - b.from)) {
    if (gap.from > from) parts.push({ from, to: Math.min(gap.from, end) })
    from = Math.max(from, gap.to)
  }
  if (from < end) parts.push({ from, to: end })
  return parts
}

const leastSpanMs = 3_600_000

/** Returns the timeline up to now. Positions are between 0 and 1. */
export function timelineOf(backups: readonly Backup[], window: Window | undefined, now: number): Timeline {
  const completed = backups.filter(({ status }) => status === 'completed')
  const parts = reachableOf(window)
  const first = Math.min(now - leastSpanMs, ...completed.map(cutOf), ...parts.map(({ from }) => from))
  const from = first - (now - first) * 0.02
  const position = (at: number): number => Math.min(1, Math.max(0, (at - from) / (now - from)))
  return {
    from,
    to: now,
    points: completed.map(backup => ({ id: backup.id, at: cutOf(backup), position: position(cutOf(backup)) })),
    reachable: parts.map(part => ({ from: position(part.from), to: position(part.to) })),
  }
}

/** Returns whether the archive can restore the data at this time. */
export const isReachable = (window: Window | undefined, at: number): boolean =>
  reachableOf(window).some(({ from, to }) => at >= from && at <= to)
