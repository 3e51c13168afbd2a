/** The lines of a response, and how Postgres messages become lines. */
import { DatabaseError } from '../../wire/errors.ts'
import { describedColumns } from '../../wire/messages.ts'

type Column = {
  readonly name: string
  /** The oid of the column's type. */
  readonly type: number
  /** The oid of the table, and the column's number in the table; absent for an expression. */
  readonly table?: number
  readonly column?: number
}

type Cells = readonly (string | null)[]

type Problem = { readonly message: string; readonly detail?: string; readonly hint?: string; readonly where?: string }

export type Line =
  | { readonly type: 'columns'; readonly columns: readonly Column[] }
  | { readonly type: 'rows'; readonly rows: readonly Cells[] }
  | ({ readonly type: 'notice'; readonly severity: string; readonly sqlstate: string } & Problem)
  | {
      readonly type: 'complete'
      readonly command: string
      readonly row_count: number
      readonly ms: number
      readonly more: boolean
    }
  | ({ readonly type: 'error'; readonly sqlstate: string; readonly position?: number } & Problem)

/** Returns the names, types and origins of the columns in a RowDescription. @throws ProtocolError */
export const columnsOf = (buffer: Buffer, start: number, end: number): Column[] =>
  describedColumns(buffer, start, end).map(({ name, type, table, column }) => ({
    ...{ name, type },
    ...(table === 0 ? {} : { table, column }),
  }))

/** The maximum length of an error field in bytes. Fields contain values, which may be large. */
const longestField = 16_384

/** Returns the fields of an ErrorResponse or a NoticeResponse (Postgres manual section 55.8). */
export function fieldsOf(buffer: Buffer, start: number, end: number): Map<string, string> {
  const fields = new Map<string, string>()
  for (let at = start; at < end && buffer[at] !== 0; ) {
    const close = buffer.indexOf(0, at + 1)
    if (close === -1 || close >= end) break
    const text = buffer.toString('utf8', at + 1, Math.min(close, at + 1 + longestField))
    fields.set(String.fromCharCode(buffer[at] ?? 0), text)
    at = close + 1
  }
  return fields
}

const problemOf = (fields: ReadonlyMap<string, string>): Problem => {
  const { message, detail, hint } = new DatabaseError(fields)
  const where = fields.get('W')
  return {
    message,
    ...(detail === null ? {} : { detail }),
    ...(hint === null ? {} : { hint }),
    ...(where === undefined ? {} : { where }),
  }
}

export const noticeLine = (fields: ReadonlyMap<string, string>): Line => ({
  type: 'notice',
  severity: fields.get('V') ?? 'NOTICE',
  sqlstate: fields.get('C') ?? '00000',
  ...problemOf(fields),
})

export type ErrorLine = Line & { readonly type: 'error' }

/**
 * `shift` is added to error positions. It is the number of characters before the statement in the text, minus the
 * length of the `EXPLAIN` prefix that the API adds.
 */
export function errorLine(fields: ReadonlyMap<string, string>, shift: number): ErrorLine {
  const { sqlState: sqlstate, position } = new DatabaseError(fields)
  const shifted = position === null ? 0 : position + shift
  return { type: 'error', sqlstate, ...(shifted > 0 ? { position: shifted } : {}), ...problemOf(fields) }
}

export const ownError = (sqlstate: string, message: string): ErrorLine => ({ type: 'error', sqlstate, message })

/** `INSERT 0 5` means the command INSERT with five rows. */
export function commandOf(tag: string): { command: string; rows: number | undefined } {
  const found = /^(\D*?)(?: 0)? (\d+)$/.exec(tag)
  return found === null ? { command: tag, rows: undefined } : { command: found[1] ?? '', rows: Number(found[2]) }
}
