/**
 * Leaves out of a log what may be a password. Postgres itself never prints one but in the words of whoever sent it: a
 * statement that failed (`ALTER ROLE nobody PASSWORD 'x'`), or what is quoted of one. From the first word on that speaks of a
 * secret, the rest of such a text is left out: what stands after it cannot be told apart by any rule. What went through this
 * already stays as it is.
 */
import type { LogEntry } from './entry.ts'

const secretive =
  /passw(?:or)?d|pgpass|secret|token|identified\s{1,9}by|(?:pgp_\w{3}_)?(?:en|de)?crypt(?:_\w{2,5})?\s{0,9}\(|scram-sha-256\$|md5[0-9a-f]{32}/i

/** In a word of a text that an `@` ends: an address with a user and a password. */
const withPassword = /:\/\/[^:/]*:./

/** Statements that take a password. Many of those that fail do so since the word for it is misspelt. */
const ofRole = /\b(?:create|alter)\s{1,9}(?:role|user|group)\b/i
const maybePassword = /['$]|\bpas/i

const leftOut = '(the rest is left out: it may hold a password)'

/** Where Postgres prints a statement as the message. */
const isStatement = /^(?:duration: [0-9.]+ ms {2})?(?:statement|parse|bind|execute|fastpath)\b[^:]{0,128}: /

/** Where the first address with a password is; -1 where there is none. Each letter is looked at twice at most, whoever wrote it. */
function addressAt(text: string): number {
  const ends = /[\s@]/g
  for (let from = text.indexOf('://'); from >= 0; from = text.indexOf('://', ends.lastIndex)) {
    ends.lastIndex = from
    const end = ends.exec(text)
    if (end === null) return -1
    const at = end[0] === '@' ? text.slice(from, end.index).search(withPassword) : -1
    if (at >= 0) return from + at
  }
  return -1
}

/** Where a statement about a role may give it a password; -1 for nowhere. */
function passwordAt(text: string): number {
  const role = ofRole.exec(text)
  if (role === null) return -1
  const from = role.index + role[0].length
  const given = text.slice(from).search(maybePassword)
  return given < 0 ? -1 : from + given
}

/** Where what may be a password begins at the latest; -1 where there is none. */
function secretAt(text: string): number {
  const places = [text.search(secretive), addressAt(text), passwordAt(text)].filter(at => at >= 0)
  return places.length === 0 ? -1 : Math.min(...places)
}

function withoutSecret(text: string): string {
  // Our own words speak of a secret, too.
  const spoken = text.endsWith(leftOut) ? text.slice(0, -leftOut.length) : text
  const at = secretAt(spoken)
  return at < 0 ? text : text.slice(0, at) + leftOut
}

/** Parameters are printed as a list of texts, which say nothing of what they are. */
const isParameters = /^parameters: /i

/** What Postgres wrote, of which the head was not understood. */
const isHalfKnown = /^\d{4}-\d\d-\d\d \S{1,16} UTC \[/

export function redacted(entry: LogEntry): LogEntry {
  const { message, detail, statement, internal_query, context } = entry
  const texts = { statement, internal_query, context }
  const spoken = [...Object.values(texts), isStatement.test(message) ? message : undefined]
  const isSecretive = spoken.some(text => text !== undefined && secretAt(text) >= 0)
  const shown = Object.entries(texts).flatMap(([field, text]) =>
    text === undefined ? [] : [[field, withoutSecret(text)]],
  )
  // A syntax error quotes the word at which it stopped.
  const quoted = isSecretive ? message.replace(/at or near "[\s\S]*"/, 'at or near (left out)') : message
  return {
    ...entry,
    message: isStatement.test(message) || isHalfKnown.test(message) ? withoutSecret(message) : quoted,
    ...Object.fromEntries(shown),
    ...(detail !== undefined && isSecretive && isParameters.test(detail) ? { detail: leftOut } : {}),
  }
}
