/** How tools reach Postgres. */
import type { OwnStatement } from '../../postgres/cells.ts'
import type { TextRows } from '../../postgres/text-rows.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'

type Column = {
  readonly name: string
  /** Of its type, in pg_type. */
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
   * Runs statements of our own one after the other, in one READ ONLY transaction on one snapshot, with the database's time limit, each tagged with
   * tool, user and request. Cancelled in Postgres where the signal is aborted. `tool` names who asks, in the tag and in the audit log. `isForAll`: other callers wait for
   * it too.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout of services/postgres/errors.ts; what the signal is aborted with
   */
  read(
    database: DatabaseSettings,
    statements: readonly OwnStatement[],
    context: CallContext,
    tool: string,
    isForAll?: boolean,
  ): Promise<readonly Rows[]>
}

/** A statement of a caller's that has been judged, as it is to run. */
export type JudgedStatement = {
  readonly text: string
  /** Of its parameters `$1`, `$2` and so on. */
  readonly values?: readonly (string | null)[]
  /** `write`: in a READ WRITE transaction that is committed; else READ ONLY, and rolled back. */
  readonly mode: 'read' | 'write'
  /** Rows at most; of the rest none is made. */
  readonly maximumRows: number
  /** Run before it, such as what opens a cursor that it fetches from. */
  readonly before?: readonly string[]
  /** What the caller wrote, for the audit log; `text` where it is that. */
  readonly written?: string
}

export type Ran = Pick<Rows, 'columns'> & {
  readonly texts: TextRows
  /** Rows that it has returned or written, by its command tag. */
  readonly affected: number
  /** Whether rows are missing because all of them are too large for one result. */
  readonly isCut: boolean
}

export type StatementRunner = {
  /**
   * Runs one statement in a transaction of its own, with the database's time limit, tagged. Nothing of it outlives the call but what it wrote.
   * @throws DatabaseError, ConnectionFailure, AcquisitionTimeout; ResultTooLarge of a write; what the signal is aborted with
   */
  run(database: DatabaseSettings, statement: JudgedStatement, context: CallContext, tool: string): Promise<Ran>
  /** Notes in the audit log a statement that was not sent. */
  refused(database: DatabaseSettings, statement: string, context: CallContext, tool: string): void
}

/** What is remembered of each statement that was sent, or refused. */
export type AuditEntry = {
  readonly tool: string
  readonly database: string
  readonly principal: string
  readonly requestId: string
  readonly mode: 'read' | 'write'
  /** Whether the caller wrote it, or this server. */
  readonly author: 'caller' | 'server'
  readonly statement: string
  readonly rows: number
  readonly milliseconds: number
  /** `done`, `refused`, `cancelled`, `no connection`, or the SQLSTATE. */
  readonly outcome: string
}
