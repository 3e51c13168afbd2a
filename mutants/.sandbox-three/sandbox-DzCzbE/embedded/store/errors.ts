/** Why a store cannot be opened. What an open store refuses is a ClusterError. */
// @ts-nocheck


/** `newer`: all is well with it, but a later release wrote what this one cannot read. */
type StoreErrorReason = 'locked' | 'corrupt' | 'newer' | 'inaccessible' | 'definition'

/** The directory of an open store was deleted, moved away or replaced: what is written there reaches nobody. */
export class DirectoryGone extends Error {
  override readonly name = 'DirectoryGone'
  constructor(directory: string) {
    super(`${directory} is gone: it was deleted or moved while it was in use`)
  }
}

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly reason: StoreErrorReason
  constructor(reason: StoreErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
