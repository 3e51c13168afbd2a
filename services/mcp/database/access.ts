/** Postgres access for tools. */
import type { OwnStatement } from '../../postgres/cells.ts'
import type { TextRows } from '../../postgres/text-rows.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'

type Column = {
  readonly name: string
  /** The OID of the column's type in pg_type. */
  readonly type: number
}

/** Rows with each value as psql prints it; null is SQL NULL. */
export type Rows = {
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly (string | null)[])[]
}

export type { OwnStatement }

export type DatabaseAccess = {
  /**
   * Runs statements of the server itself, one after another, in one READ ONLY transaction on one snapshot. Applies the
   * database's time limit. Tags each statement with tool, user and request. If the signal aborts, cancels the statement
   * in Postgres. `tool`: for the tag and the audit log. `isForAll`: other callers may wait for the result too.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout of services/postgres/errors.ts; the signal's abort
   *   reason
   */
  read(
    database: DatabaseSettings,
    statements: readonly OwnStatement[],
    context: CallContext,
    tool: string,
    isForAll?: boolean,
  ): Promise<readonly Rows[]>
}

/** A caller's statement that passed the checks, as it will run. */
export type JudgedStatement = {
  readonly text: string
  /** Values of the parameters `$1`, `$2` and so on. */
  readonly values?: readonly (string | null)[]
  /**
   * `write`: runs in a READ WRITE transaction that is committed. `read`: runs in a READ ONLY transaction that is rolled
   * back.
   */
  readonly mode: 'read' | 'write'
  /** The maximum number of rows. Postgres produces no further rows. */
  readonly maximumRows: number
  /** Statements that run before, for example to open a cursor for a FETCH. */
  readonly before?: readonly string[]
  /** The statement as the caller wrote it, for the audit log; `text` by default. */
  readonly written?: string
}

export type Ran = Pick<Rows, 'columns'> & {
  readonly texts: TextRows
  /** The number of returned or written rows in the command tag. */
  readonly affected: number
  /** Whether rows are missing because all rows together exceed the size limit of one result. */
  readonly isTruncated: boolean
}

export type StatementRunner = {
  /**
   * Runs one statement in its own transaction with the database's time limit, and tags it. After the call, nothing but
   * its writes remains.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout; ResultTooLarge of a write; the signal's abort reason
   */
  run(database: DatabaseSettings, statement: JudgedStatement, context: CallContext, tool: string): Promise<Ran>
  /** Records a statement in the audit log that was refused, and so not sent. */
  refused(database: DatabaseSettings, statement: string, context: CallContext, tool: string): void
}

/** The audit record of a statement that the server sent or refused. */
export type AuditEntry = {
  readonly tool: string
  readonly database: string
  readonly principal: string
  readonly requestId: string
  readonly mode: 'read' | 'write'
  /** Whether a caller or the server wrote the statement. */
  readonly author: 'caller' | 'server'
  readonly statement: string
  readonly rows: number
  readonly milliseconds: number
  /** `done`, `refused`, `cancelled`, `no connection`, or the SQLSTATE. */
  readonly outcome: string
}
