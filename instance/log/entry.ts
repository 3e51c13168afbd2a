/**
 * One entry of Postgres's log, from the JSON log on the volume or from the container's output. All fields except time,
 * level and message have the names of the JSON log.
 */
export type LogEntry = {
  /** RFC 3339, to the millisecond. */
  timestamp: string
  /** As in Postgres: `LOG`, `ERROR` and so on. */
  level: string
  message: string
  state_code?: string | undefined
  user?: string | undefined
  dbname?: string | undefined
  remote_host?: string | undefined
  pid?: number | undefined
  line_num?: number | undefined
  detail?: string | undefined
  hint?: string | undefined
  internal_query?: string | undefined
  context?: string | undefined
  statement?: string | undefined
}

/** Messages about the log's destination. Espalier configures it, so users do not see them. */
const ofCollector = ['redirecting log output to logging collector process', 'ending log output to stderr']

export const isAboutCollector = ({ message }: LogEntry): boolean => ofCollector.includes(message)

/** Entries with the same time keep their order. */
export const newestFirst = (entries: readonly LogEntry[]): LogEntry[] =>
  entries.toSorted((left, right) => Date.parse(right.timestamp) - Date.parse(left.timestamp))
