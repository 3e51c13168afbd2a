/** Why a store cannot be opened. An open store refuses with a ClusterError. */

/** `newer`: not damaged, but written by a later release in a form that this one cannot read. */
type StoreErrorReason = 'locked' | 'corrupt' | 'newer' | 'inaccessible' | 'definition'

/** The directory of an open store was deleted, moved or replaced: writes to it are lost. */
export class DirectoryMissing extends Error {
  override readonly name = 'DirectoryMissing'
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
