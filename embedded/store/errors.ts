/** Why a store cannot be opened. What an open store refuses is a ClusterError. */

export type StoreErrorReason = 'locked' | 'corrupt' | 'inaccessible' | 'definition'

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly reason: StoreErrorReason
  constructor(reason: StoreErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
