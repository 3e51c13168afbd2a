/**
 * Converts a line of Postgres's JSON log (PostgreSQL manual, "Using JSON-Format Log Output") to an entry. A line may be
 * incomplete, of another version or not from Postgres. A line that cannot be parsed is not an entry and causes no
 * error.
 */

import { isRecord } from '../record.ts'
import type { LogEntry } from './entry.ts'

const time = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) (?:UTC|GMT)$/
const level = /^[A-Z]{3,9}[1-5]?$/

/** The beginning of a line of the JSON log. */
const head = /^\{"timestamp":"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) (?:UTC|GMT)"/

const msOf = (day: string | undefined, clock: string | undefined): number | undefined => {
  const ms = Date.parse(`${day}T${clock}Z`)
  return Number.isNaN(ms) ? undefined : ms
}

/** When a line was written, in ms since the epoch, read only from its beginning. */
export function timeOfLine(line: string): number | undefined {
  const [, day, clock] = head.exec(line) ?? []
  return msOf(day, clock)
}

const ofSession = ['state_code', 'user', 'dbname', 'remote_host'] as const
const numbers = ['pid', 'line_num'] as const
const texts = ['detail', 'hint', 'internal_query', 'context', 'statement'] as const

function entryOf(read: Record<string, unknown>): LogEntry | undefined {
  const { timestamp, error_severity: severity, message = '' } = read
  const [, day, clock] = (typeof timestamp === 'string' && time.exec(timestamp)) || []
  if (msOf(day, clock) === undefined) return undefined
  if (typeof severity !== 'string' || !level.test(severity) || typeof message !== 'string') return undefined
  const text = (name: string) => (typeof read[name] === 'string' && read[name] !== '' ? [[name, read[name]]] : [])
  const number = (name: string) => (Number.isSafeInteger(read[name]) ? [[name, read[name]]] : [])
  const more = [...ofSession.flatMap(text), ...numbers.flatMap(number), ...texts.flatMap(text)]
  return { timestamp: `${day}T${clock}Z`, level: severity, message, ...Object.fromEntries(more) }
}

export function entryOfLine(line: string): LogEntry | undefined {
  try {
    const read: unknown = JSON.parse(line)
    return isRecord(read) ? entryOf(read) : undefined
  } catch {
    return undefined
  }
}

/** The complete values at the beginning of a long line. */
const fieldsOfHead = ['timestamp', 'user', 'dbname', 'pid', 'remote_host', 'line_num', 'error_severity', 'state_code']
const patterns = fieldsOfHead.map(
  name => [name, new RegExp(`[{,]"${name}":("(?:[^"\\\\]|\\\\.){0,256}"|\\d{1,15})[,}]`)] as const,
)

/**
 * The entry of a line of which only the beginning was read. Its texts are omitted, because their rest cannot be checked
 * for passwords.
 */
export function entryOfHead(beginning: string): LogEntry | undefined {
  const read = patterns.flatMap(([name, pattern]) => {
    const [, value] = pattern.exec(beginning) ?? []
    return value === undefined ? [] : [`"${name}":${value}`]
  })
  return entryOfLine(`{${[...read, '"message":"(left out: it is too long)"'].join(',')}}`)
}
