/** Why a store cannot be opened. A store that is open refuses with a ClusterError. */

/** `newer`: not damaged, but a later release wrote it in a form that this release cannot read. */
type StoreErrorReason = 'locked' | 'corrupt' | 'newer' | 'inaccessible' | 'definition'

/** The directory of an open store was deleted, moved or replaced: writes to it are lost. */
export class DirectoryMissing extends Error {
  override readonly name = 'DirectoryMissing'
  constructor(directory: string) {
    super(`${directory} is missing: it was deleted or moved while it was in use`)
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
