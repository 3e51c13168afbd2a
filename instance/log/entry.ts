/**
 * One entry of Postgres's log, wherever it was read: in the JSON log on the volume or in what the container printed. What it tells
 * beside time, level and message has the names of the JSON log.
 */
export type LogEntry = {
  /** RFC 3339, to the millisecond. */
  timestamp: string
  /** As Postgres says it: `LOG`, `ERROR` and so on. */
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

/** Postgres says where its log goes, in the words of its configuration: that is nobody's but ours. */
const ofCollector = ['redirecting log output to logging collector process', 'ending log output to stderr']

export const isAboutCollector = ({ message }: LogEntry): boolean => ofCollector.includes(message)

/** What is of one time stays in its order. */
export const newestFirst = (entries: readonly LogEntry[]): LogEntry[] =>
  entries.toSorted((left, right) => Date.parse(right.timestamp) - Date.parse(left.timestamp))
