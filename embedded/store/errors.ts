/** Why a store cannot be opened. An open store refuses requests with a ClusterError. */

/** `newer`: not damaged, but a later release wrote it in a form that this release cannot read. */
type StoreErrorReason = 'locked' | 'corrupt' | 'newer' | 'inaccessible' | 'definition'

/** An open store's directory was deleted, moved or replaced. The store refuses writes, because they would be lost. */
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
