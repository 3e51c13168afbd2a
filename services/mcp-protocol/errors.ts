/** What the protocol itself refuses, as data: each side says it in the words of the revision it answers. */

export type ProtocolFault =
  | { readonly kind: 'parse error'; readonly problem: string | undefined }
  | { readonly kind: 'invalid request'; readonly problem: string }
  | { readonly kind: 'unknown method'; readonly method: string }
  /** Of what says which revision a request is of, and what its client can do. */
  | { readonly kind: 'invalid envelope'; readonly problem: string }
  | { readonly kind: 'header mismatch'; readonly problem: string }
  | { readonly kind: 'unsupported version'; readonly requested: string | undefined }
  /** As much of something as there may be. */
  | { readonly kind: 'exhausted'; readonly problem: string }
  /** The client cannot be asked, or did not answer. */
  | { readonly kind: 'no answer'; readonly problem: string }

export class ProtocolError extends Error {
  readonly fault: ProtocolFault

  constructor(fault: ProtocolFault) {
    super(fault.kind)
    this.name = 'ProtocolError'
    this.fault = fault
  }
}
