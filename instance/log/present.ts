/** The part of an entry that users see, from any source. */
import type { LogEntry } from './entry.ts'
import { redacted } from './redact.ts'

/** Maximum length of a shown text, in characters. */
const longestText = 8192

/** A shortened text must stay unchanged when it is shortened again: the API gets shortened texts from agents. */
const isShortened = (text: string): boolean => / \(\d{1,10} characters more\)$/.test(text.slice(longestText))

const shortened = (text: string): string =>
  text.length <= longestText || (text.length < longestText + 40 && isShortened(text))
    ? text
    : `${text.slice(0, longestText)} (${text.length - longestText} characters more)`

/** An entry as any user may see it: without possible passwords and without very long texts. */
export function presented(entry: LogEntry): LogEntry {
  const texts = Object.entries(redacted(entry)).map(([name, value]) => [
    name,
    typeof value === 'string' ? shortened(value) : value,
  ])
  return Object.fromEntries(texts) as LogEntry
}
