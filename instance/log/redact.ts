/**
 * Removes possible passwords from a log. Postgres prints a password only in a client's own text: a failed statement
 * (`ALTER ROLE nobody PASSWORD 'x'`), or a quote of it. From the first word about a secret, the rest of such a text is
 * omitted, since no rule can find the password in it. Text that was already redacted stays unchanged.
 */
import type { LogEntry } from './entry.ts'

const secretive =
  /passw(?:or)?d|pgpass|secret|token|identified\s{1,9}by|(?:pgp_\w{3}_)?(?:en|de)?crypt(?:_\w{2,5})?\s{0,9}\(|scram-sha-256\$|md5[0-9a-f]{32}/i

/** Matches, in a word that contains an `@`, an address with a user and a password. */
const withPassword = /:\/\/[^:/]*:./

/** Statements with a password. Many of them fail because the keyword is misspelt. */
const ofRole = /\b(?:create|alter)\s{1,9}(?:role|user|group)\b/i
const maybePassword = /['$]|\bpas/i

const omission = '(the rest is left out: it may hold a password)'

/** Prefixes of messages that contain a statement. */
const isStatement = /^(?:duration: [0-9.]+ ms {2})?(?:statement|parse|bind|execute|fastpath)\b[^:]{0,128}: /

/**
 * The position of the first address with a password; -1 if there is none. For any text, each character is read at most
 * twice.
 */
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

/** The position at which a statement about a role may contain a password; -1 if none. */
function passwordAt(text: string): number {
  const role = ofRole.exec(text)
  if (role === null) return -1
  const from = role.index + role[0].length
  const given = text.slice(from).search(maybePassword)
  return given < 0 ? -1 : from + given
}

/** The latest position at which a possible password begins; -1 if there is none. */
function secretAt(text: string): number {
  const positions = [text.search(secretive), addressAt(text), passwordAt(text)].filter(at => at >= 0)
  return positions.length === 0 ? -1 : Math.min(...positions)
}

function withoutSecret(text: string): string {
  // The check skips Espalier's own omission text, which mentions a password.
  const spoken = text.endsWith(omission) ? text.slice(0, -omission.length) : text
  const at = secretAt(spoken)
  return at < 0 ? text : text.slice(0, at) + omission
}

/** Parameters are printed as a list of texts, without their meaning. */
const isParameters = /^parameters: /i

/** Text from Postgres whose header could not be parsed. */
const isHalfKnown = /^\d{4}-\d\d-\d\d \S{1,16} UTC \[/

export function redacted(entry: LogEntry): LogEntry {
  const { message, detail, statement, internal_query, context } = entry
  const texts = { statement, internal_query, context }
  const spoken = [...Object.values(texts), isStatement.test(message) ? message : undefined]
  const isSecretive = spoken.some(text => text !== undefined && secretAt(text) >= 0)
  const shown = Object.entries(texts).flatMap(([field, text]) =>
    text === undefined ? [] : [[field, withoutSecret(text)]],
  )
  // A syntax error quotes the word at which the parser stopped.
  const quoted = isSecretive ? message.replace(/at or near "[\s\S]*"/, 'at or near (left out)') : message
  return {
    ...entry,
    message: isStatement.test(message) || isHalfKnown.test(message) ? withoutSecret(message) : quoted,
    ...Object.fromEntries(shown),
    ...(detail !== undefined && isSecretive && isParameters.test(detail) ? { detail: omission } : {}),
  }
}
