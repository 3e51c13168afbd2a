/** A statement that this server refuses, with the reason for the caller. */

type RefusalKind =
  | 'syntax'
  | 'several statements'
  | 'too large'
  /** A write on a read-only database. */
  | 'read-only'
  /** Never allowed. */
  | 'forbidden'

export class StatementRefusal extends Error {
  readonly kind: RefusalKind
  /** The position in the text, in characters from 0. */
  readonly position: number | undefined

  constructor(kind: RefusalKind, message: string, position?: number) {
    super(message)
    this.name = 'StatementRefusal'
    this.kind = kind
    this.position = position
  }
}
