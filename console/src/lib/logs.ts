/** Entries of a log while it is followed: a bounded list, what is searched, and severities. Pure. */
import type { Schemas } from '../api/client.ts'

export type LogEntry = Schemas['LogEntry']
/** A key for the page: entries have none, and several can be equal. */
export type Line = { key: number; entry: LogEntry }

/** The most lines in memory; older ones are dropped. */
const mostLines = 5000

const identityOf = (entry: LogEntry): string => JSON.stringify(entry)

/**
 * The lines with the entries of another read, which overlaps them. Returns the same list if there is none.
 * @param read newest first, as the API returns them, with every entry of the last line's instant
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

/** Lines of at least a severity of which any text contains every typed word. */
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

const shown = ['detail', 'hint', 'statement', 'internal_query', 'context'] as const

/** What an entry says besides its message. */
export const detailsOf = (entry: LogEntry): [(typeof shown)[number], string][] =>
  shown.flatMap((key): [(typeof shown)[number], string][] => {
    const text = entry[key]
    return text === undefined || text === '' ? [] : [[key, text]]
  })
