/** The errors of a cluster: one class, distinguished by `reason` as in the API server's Status. */

export type ClusterErrorReason =
  | 'NotFound'
  | 'AlreadyExists'
  /** The resourceVersion or uid that a write was decided on is no longer the object's. */
  | 'Conflict'
  /** Server-side apply without force met a field that another manager owns. */
  | 'FieldConflict'
  /** The object breaks its schema or one of its CEL rules; the message names field and rule. */
  | 'Invalid'
  /** The resourceVersion to watch or list from is gone: list again (HTTP 410). */
  | 'Expired'
  | 'Forbidden'
  | 'BadRequest'
  | 'TooManyRequests'
  /** The server did not answer, or could not: try again. */
  | 'Unavailable'

/** The prefix of the message of an `Unavailable` from a cluster whose own disk is full. */
export const diskFullMessage = 'the disk that holds the store is full'

export class ClusterError extends Error {
  override readonly name = 'ClusterError'
  readonly reason: ClusterErrorReason
  constructor(reason: ClusterErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** The server does not have this kind now: its definition is not installed, or not served yet. */
export class KindNotServedError extends ClusterError {
  constructor(message: string) {
    super('Unavailable', message)
  }
}

/** Whether an error is a ClusterError of one of these reasons. */
export function isClusterError(error: unknown, ...reasons: ClusterErrorReason[]): error is ClusterError {
  return error instanceof ClusterError && (reasons.length === 0 || reasons.includes(error.reason))
}

/** Whether the cluster refuses a request permanently: it is not allowed, or invalid. */
export const isRefused = (error: unknown): error is ClusterError =>
  isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')
