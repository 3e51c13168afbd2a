/** What a conversation cannot be kept for. */

type ConversationFault =
  | { readonly kind: 'too many'; readonly most: number }
  /** The file cannot be opened, read or written. */
  | { readonly kind: 'storage'; readonly path: string; readonly code: string }

export class ConversationError extends Error {
  readonly fault: ConversationFault

  constructor(fault: ConversationFault) {
    super(fault.kind)
    this.name = 'ConversationError'
    this.fault = fault
  }
}
