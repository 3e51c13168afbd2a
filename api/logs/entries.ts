/**
 * From the lines of a container to entries: what Postgres writes begins with the prefix of its configuration
 * (operator/postgres/configuration.ts), and goes on in lines that begin with a tab. What has no prefix was written by
 * something else, or before Postgres had its configuration: it is an entry as it is.
 */
import type { LogEntry } from '../../instance/log/entry.ts'
import { presented } from '../../instance/log/present.ts'

/** Names are bounded, so that no line takes long. */
const head =
  /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) UTC \[(\d{1,10}):(\d{1,18})\] ([0-9A-Z]{5}) (?:\[user=(.{0,256}?) db=(.{0,256}?) client=([^\s\]]{0,64})\] )?([A-Z]{3,9}[1-5]?): {2}/

/** What belongs to the entry before it, by its word, and its name in Postgres's JSON log. */
const parts = {
  DETAIL: 'detail',
  HINT: 'hint',
  QUERY: 'internal_query',
  CONTEXT: 'context',
  STATEMENT: 'statement',
} as const
type Part = (typeof parts)[keyof typeof parts]

const partOf = (word: string): Part | undefined => (word in parts ? parts[word as keyof typeof parts] : undefined)
const unshown = new Set(['LOCATION', 'BACKTRACE'])

/** A container's line that is longer than this may have been cut in two by whoever keeps it. */
const cutBytes = 16_000

const field = (name: keyof LogEntry, value: string | undefined): Partial<LogEntry> =>
  value === undefined || value === '' ? {} : { [name]: value }

/** Only lines whose entry begins among them: what is left of one that began before could not be judged. */
export function entriesOf(lines: readonly string[]): LogEntry[] {
  const entries: LogEntry[] = []
  let current: LogEntry | undefined
  /** Where lines without a head go on. */
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
      const [whole, day, time, pid, number, state, user, dbname, host, word = ''] = found
      const rest = text.slice(whole.length)
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
    wasLong = text.length >= cutBytes
  }
  return entries.map(presented)
}
