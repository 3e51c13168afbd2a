/** Postgres access for tools. */
import type { OwnStatement } from '../../postgres/cells.ts'
import type { TextRows } from '../../postgres/text-rows.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'

type Column = {
  readonly name: string
  /** The OID of its type in pg_type. */
  readonly type: number
}

/** Each value as psql prints it; null: NULL. */
export type Rows = {
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly (string | null)[])[]
}

export type { OwnStatement }

export type DatabaseAccess = {
  /**
   * Runs statements of the server itself one after another, in one READ ONLY transaction on one snapshot, with the
   * database's time limit, each tagged with tool, user and request. Cancelled in Postgres when the signal is aborted.
   * `tool`: for the tag and the audit log. `isForAll`: other callers wait for the result too.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout of services/postgres/errors.ts; the abort reason of
   * the signal
   */
  read(
    database: DatabaseSettings,
    statements: readonly OwnStatement[],
    context: CallContext,
    tool: string,
    isForAll?: boolean,
  ): Promise<readonly Rows[]>
}

/** A checked statement of a caller, as it will run. */
export type JudgedStatement = {
  readonly text: string
  /** Values of the parameters `$1`, `$2` and so on. */
  readonly values?: readonly (string | null)[]
  /** `write`: in a READ WRITE transaction that is committed; otherwise READ ONLY, and rolled back. */
  readonly mode: 'read' | 'write'
  /** The maximum number of rows; further ones are not produced. */
  readonly maximumRows: number
  /** A statement to run first, for example to open a cursor that is fetched from. */
  readonly before?: readonly string[]
  /** The caller's own text for the audit log; default: `text`. */
  readonly written?: string
}

export type Ran = Pick<Rows, 'columns'> & {
  readonly texts: TextRows
  /** Returned or written rows, by the command tag. */
  readonly affected: number
  /** Whether rows are missing because together they are too large for one result. */
  readonly isTruncated: boolean
}

export type StatementRunner = {
  /**
   * Runs one statement in its own transaction, with the database's time limit, tagged. Only its writes outlive the
   * call.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout; ResultTooLarge of a write; the abort reason of the
   * signal
   */
  run(database: DatabaseSettings, statement: JudgedStatement, context: CallContext, tool: string): Promise<Ran>
  /** Records in the audit log a statement that was not sent. */
  refused(database: DatabaseSettings, statement: string, context: CallContext, tool: string): void
}

/** The audit record of a statement that was sent or refused. */
export type AuditEntry = {
  readonly tool: string
  readonly database: string
  readonly principal: string
  readonly requestId: string
  readonly mode: 'read' | 'write'
  /** Whether it is a caller's statement, or the server's. */
  readonly author: 'caller' | 'server'
  readonly statement: string
  readonly rows: number
  readonly milliseconds: number
  /** `done`, `refused`, `cancelled`, `no connection`, or the SQLSTATE. */
  readonly outcome: string
}
