/** Collects, filters and describes the entries of a log. Pure. */
import type { Schemas } from '../api/client.ts'

export type LogEntry = Schemas['LogEntry']
/** An entry with a unique key for the page. Entries have no id, and two entries can be equal. */
export type Line = { key: number; entry: LogEntry }

/** The maximum number of lines in memory. Older lines are removed. */
const mostLines = 5000

const identityOf = (entry: LogEntry): string => JSON.stringify(entry)

/**
 * Adds the new entries of a read. Returns the same list if the read has no new entry.
 * @param read entries, newest first as the API returns them. They include all entries with the last line's timestamp.
 */
export function withRead(lines: readonly Line[], read: readonly LogEntry[], most = mostLines): readonly Line[] {
  const last = lines.at(-1)
  const from = last === undefined ? Number.NEGATIVE_INFINITY : Date.parse(last.entry.timestamp)
  const known = new Map<string, number>()
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    const line = lines[at]
    if (line === undefined || Date.parse(line.entry.timestamp) < from) break
    const identity = identityOf(line.entry)
    known.set(identity, (known.get(identity) ?? 0) + 1)
  }
  const added: LogEntry[] = []
  for (const entry of read.toReversed()) {
    if (Date.parse(entry.timestamp) < from) continue
    const identity = identityOf(entry)
    const count = known.get(identity) ?? 0
    if (count > 0) known.set(identity, count - 1)
    else added.push(entry)
  }
  if (added.length === 0) return lines
  const first = (last?.key ?? -1) + 1
  return [...lines, ...added.map((entry, index) => ({ key: first + index, entry }))].slice(-most)
}

export const severities = ['all', 'warning', 'error'] as const
export type Severity = (typeof severities)[number]
type Rank = 'error' | 'warning' | 'other'

export const rankOf = (level: string): Rank =>
  ['ERROR', 'FATAL', 'PANIC'].includes(level) ? 'error' : level === 'WARNING' ? 'warning' : 'other'

const textOf = (entry: LogEntry): string => Object.values(entry).join(' ').toLowerCase()

/** Returns the lines of at least this severity that contain every typed word. */
export function matching(lines: readonly Line[], typed: string, severity: Severity): readonly Line[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0 && severity === 'all') return lines
  return lines.filter(({ entry }) => {
    const rank = rankOf(entry.level)
    const isSevere = severity === 'all' || rank === 'error' || (severity === 'warning' && rank === 'warning')
    if (!isSevere) return false
    if (words.length === 0) return true
    const text = textOf(entry)
    return words.every(word => text.includes(word))
  })
}

const detailKeys = ['detail', 'hint', 'statement', 'internal_query', 'context'] as const

/** Returns the texts of an entry besides its message. Omits empty ones. */
export const detailsOf = (entry: LogEntry): [(typeof detailKeys)[number], string][] =>
  detailKeys.flatMap((key): [(typeof detailKeys)[number], string][] => {
    const text = entry[key]
    return text === undefined || text === '' ? [] : [[key, text]]
  })
