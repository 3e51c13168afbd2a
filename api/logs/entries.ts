/**
 * Parses a container's lines into entries: output of Postgres starts with the configured prefix
 * (operator/postgres/configuration.ts), and continues in lines that start with a tab. Output without a prefix was
 * written by another program, or before Postgres had its configuration: each line is an entry.
 */
import type { LogEntry } from '../../instance/log/entry.ts'
import { presented } from '../../instance/log/present.ts'

/** Names are limited, so that every line is parsed quickly. */
const head =
  /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) UTC \[(\d{1,10}):(\d{1,18})\] ([0-9A-Z]{5}) (?:\[user=(.{0,256}?) db=(.{0,256}?) client=([^\s\]]{0,64})\] )?([A-Z]{3,9}[1-5]?): {2}/

/** Details of the previous entry, by their keyword, with their name in Postgres's JSON log. */
const parts = {
  DETAIL: 'detail',
  HINT: 'hint',
  QUERY: 'internal_query',
  CONTEXT: 'context',
  STATEMENT: 'statement',
} as const
type Part = (typeof parts)[keyof typeof parts]

const partOf = (word: string): Part | undefined =>
  Object.hasOwn(parts, word) ? parts[word as keyof typeof parts] : undefined
const unshown = new Set(['LOCATION', 'BACKTRACE'])

/** A longer line of a container may have been split by the container runtime. */
const longestLine = 16_000

const field = (name: keyof LogEntry, value: string | undefined): Partial<LogEntry> =>
  value === undefined || value === '' ? {} : { [name]: value }

/** Only lines whose entry starts among them: the rest of an earlier entry cannot be parsed. */
export function entriesOf(lines: readonly string[]): LogEntry[] {
  const entries: LogEntry[] = []
  let current: LogEntry | undefined
  /** The entry to which lines without a head belong. */
  let at: 'message' | Part | 'nowhere' = 'nowhere'
  let wasLong = false

  const goOn = (text: string) => {
    if (current === undefined || at === 'nowhere') return
    current[at] = `${current[at] ?? ''}${text}`
  }
  for (const line of lines) {
    const space = line.indexOf(' ')
    const [stamp, text] = [line.slice(0, space), line.slice(space + 1)]
    const found = head.exec(text)
    const isRest = found === null && (text.startsWith('\t') || wasLong)
    if (found !== null) {
      const [matched, day, time, pid, number, state, user, dbname, host, word = ''] = found
      const rest = text.slice(matched.length)
      const part = partOf(word)
      if (part !== undefined || unshown.has(word)) {
        at = part ?? 'nowhere'
        if (part !== undefined && current !== undefined) current[part] = rest
      } else {
        current = {
          timestamp: `${day}T${time}Z`,
          level: word,
          message: rest,
          ...(state === '00000' ? {} : field('state_code', state)),
          ...field('user', user),
          ...field('dbname', dbname),
          ...field('remote_host', host),
          pid: Number(pid),
          line_num: Number(number),
        }
        at = 'message'
        entries.push(current)
      }
    } else if (isRest) goOn(text.startsWith('\t') ? `\n${text.slice(1)}` : text)
    else {
      const written = Date.parse(stamp)
      current = { timestamp: new Date(Number.isNaN(written) ? 0 : written).toISOString(), level: 'LOG', message: text }
      at = 'message'
      entries.push(current)
    }
    wasLong = text.length >= longestLine
  }
  return entries.map(presented)
}
