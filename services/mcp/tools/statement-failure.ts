/**
 * A statement's failure, as text for a model: what is wrong, where, and what to do. Postgres's messages may contain
 * text of any user, so they are marked as data. The text of a connection failure has only its kind.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { fenced } from '../../retrieval/fence.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { ResultTooLarge } from '../database/errors.ts'
import { unreachable } from '../database/unreachable.ts'
import { StatementRefusal } from '../statement/refusal.ts'

const maximumMessage = 2_000
/** The number of characters that are shown on either side of an error. */
const beside = 60

const shortened = (text: string): string =>
  text.length <= maximumMessage ? text : `${text.slice(0, maximumMessage).toWellFormed()}…`

/** The line with a caret under the character at this position, in code points from 0. */
function caret(statement: string, position: number): string {
  const before = [...statement].slice(0, position).join('')
  const from = before.lastIndexOf('\n') + 1
  const column = [...before.slice(from)].length
  const line = [...(statement.slice(from).split('\n', 1)[0] ?? '')]
  const first = Math.max(0, column - beside)
  const shown = line
    .slice(first, column + beside)
    .join('')
    .replaceAll('\t', ' ')
  return `LINE ${before.split('\n').length}: ${shown}\n${' '.repeat(`LINE ${before.split('\n').length}: `.length + column - first)}^`
}

const advice: readonly (readonly [sqlState: RegExp, text: (database: DatabaseSettings) => string])[] = [
  [
    /^57014$/,
    ({ statementTimeoutMs }) =>
      `The statement was cancelled: it took longer than ${statementTimeoutMs / 1_000} s. Request fewer rows, add a WHERE that can use an index, or check the plan with execute_explain.`,
  ],
  [/^08P01$/, () => 'Parameters such as $1 have no values here: write values into the statement.'],
  [/^53/, () => 'The server lacks memory or disk for this statement. Request less data.'],
  [/^55P03$/, () => 'The statement waited too long for a lock. Try again later.'],
  [/^42501$/, ({ user }) => `The role "${user}" lacks a privilege that the statement requires.`],
  [/^25006$/, () => 'The statement writes, but this database is read-only here.'],
  [/^(42P01|42703)$/, () => 'get_schema_info lists tables and columns.'],
]

function refused(error: DatabaseError, statement: string, prefix: number, database: DatabaseSettings): string {
  const { message, sqlState, detail, hint, position } = error
  const lines = [
    message,
    ...(detail === null ? [] : [`DETAIL: ${detail}`]),
    ...(hint === null ? [] : [`HINT: ${hint}`]),
  ]
  const at = position === null ? -1 : position - 1 - prefix
  const parts = [
    `Error, SQLSTATE ${sqlState}.`,
    ...advice.filter(([pattern]) => pattern.test(sqlState)).map(([, text]) => text(database)),
    ...(at < 0 || at > statement.length ? [] : [caret(statement, at)]),
    fenced(shortened(lines.join('\n'))),
  ]
  return parts.join('\n')
}

/** The server is starting, is stopping, or has no free connection. Statements cause the other SQLSTATEs of class 53. */
const isOfConnection = ({ sqlState }: DatabaseError): boolean => /^(57P|53300|08(?!P01))/.test(sqlState)

/**
 * `prefix`: the length of the text before the statement. Returns undefined if the statement did not cause the error.
 */
export function statementFailure(
  error: unknown,
  statement: string,
  database: DatabaseSettings,
  prefix = 0,
): string | undefined {
  if (error instanceof StatementRefusal) {
    const { kind, message, position } = error
    if (kind !== 'syntax') return message
    return `Invalid SQL: ${message}${position === undefined ? '' : `\n${caret(statement, position)}`}`
  }
  if (error instanceof ResultTooLarge) return `Refused: ${error.message}.`
  if (error instanceof AcquisitionTimeout)
    return `All connections to the database "${database.name}" are in use, or this caller has reached its connection limit. Try again in a moment.`
  if (error instanceof ConnectionFailure || (error instanceof DatabaseError && isOfConnection(error)))
    return unreachable(database.name, error).message
  return error instanceof DatabaseError ? refused(error, statement, prefix, database) : undefined
}
