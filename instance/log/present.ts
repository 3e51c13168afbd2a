/** What is shown of an entry, wherever it was read. */
import type { LogEntry } from './entry.ts'
import { redacted } from './redact.ts'

/** Most of one text that is shown, in characters. */
const longestText = 8192

/** One that was shortened stays as it is: the API gets them from agents. */
const isShortened = (text: string): boolean => / \(\d{1,10} characters more\)$/.test(text.slice(longestText))

const shortened = (text: string): string =>
  text.length <= longestText || (text.length < longestText + 40 && isShortened(text))
    ? text
    : `${text.slice(0, longestText)} (${text.length - longestText} characters more)`

/** An entry as anybody may see it: without what may be a password, and with no text that is very long. */
export function presented(entry: LogEntry): LogEntry {
  const texts = Object.entries(redacted(entry)).map(([name, value]) => [
    name,
    typeof value === 'string' ? shortened(value) : value,
  ])
  return Object.fromEntries(texts) as LogEntry
}
