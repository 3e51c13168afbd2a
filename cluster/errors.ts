/** The errors of a cluster: one class, distinguished by `reason` as in the API server's Status. */

export type ClusterErrorReason =
  | 'NotFound'
  | 'AlreadyExists'
  /** The object no longer has the resourceVersion or uid on which the write was decided. */
  | 'Conflict'
  /** Server-side apply without force would change a field that another manager owns. */
  | 'FieldConflict'
  /** The object violates its schema or one of its CEL rules. The message names the field and the rule. */
  | 'Invalid'
  /** The resourceVersion to watch or list from is no longer available: list again (HTTP 410). */
  | 'Expired'
  | 'Forbidden'
  | 'BadRequest'
  | 'TooManyRequests'
  /** The server did not answer, or could not process the request: retry. */
  | 'Unavailable'

/** The message of an `Unavailable` error begins with this text if the cluster's own disk is full. */
export const diskFullMessage = 'the disk that holds the store is full'

export class ClusterError extends Error {
  override readonly name = 'ClusterError'
  readonly reason: ClusterErrorReason
  constructor(reason: ClusterErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** The server does not serve this kind now: its definition is not installed, or is not served yet. */
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
