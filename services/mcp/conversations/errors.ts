/** Errors of a conversation store. */

type ConversationFault =
  | { readonly kind: 'too many'; readonly most: number }
  /** The SQLite file cannot be opened, read or written. */
  | { readonly kind: 'storage'; readonly path: string; readonly code: string }
  /** Postgres is unavailable. `reason` is for the log. */
  | { readonly kind: 'unavailable'; readonly reason: string }

export class ConversationError extends Error {
  readonly fault: ConversationFault

  constructor(fault: ConversationFault, cause?: unknown) {
    super(fault.kind, { cause })
    this.name = 'ConversationError'
    this.fault = fault
  }
}
