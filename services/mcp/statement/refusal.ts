/** A statement that this server does not run, and why, in words for whoever wrote it. */

type RefusalKind =
  | 'syntax'
  | 'several statements'
  | 'too large'
  /** It writes, and nothing may be written here. */
  | 'read-only'
  /** Nobody may run it here. */
  | 'forbidden'

export class StatementRefusal extends Error {
  readonly kind: RefusalKind
  /** Where in the text, in characters from 0. */
  readonly position: number | undefined

  constructor(kind: RefusalKind, message: string, position?: number) {
    super(message)
    this.name = 'StatementRefusal'
    this.kind = kind
    this.position = position
  }
}
