/** The server refuses a statement. The message is the reason for the caller. */

type RefusalKind =
  | 'syntax'
  | 'several statements'
  | 'too large'
  /** The statement writes, and the database is read-only. */
  | 'read-only'
  /** The statement is never allowed. */
  | 'forbidden'

export class StatementRefusal extends Error {
  readonly kind: RefusalKind
  /** The position in the statement's text, in characters from 0. */
  readonly position: number | undefined

  constructor(kind: RefusalKind, message: string, position?: number) {
    super(message)
    this.name = 'StatementRefusal'
    this.kind = kind
    this.position = position
  }
}
