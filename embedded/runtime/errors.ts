/** Errors of the runtime, distinguished by `reason`. A message is one line for users and never contains a secret. */

export type RuntimeErrorReason =
  /** The system is not Linux, or no address of 127.0.0.0/8 can be bound. */
  | 'UnsupportedPlatform'
  /** Another runtime uses this directory. */
  | 'DirectoryInUse'
  /** The runtime cannot create or write one of its directories. */
  | 'DirectoryNotWritable'
  /** Volumes are in a pool that cannot be mounted. */
  | 'PoolNotMounted'
  /** This machine has no binaries for this image. */
  | 'ImageNotFound'
  /** A volume needs a family of binaries that this machine no longer has. */
  | 'ImageFamilyGone'
  /** A process did not stop for a snapshot, or was stopped for too long. */
  | 'FreezeFailed'
  /** A process of an earlier run did not end. */
  | 'ProcessWouldNotEnd'
  /** A pod uses a feature or a value that this runtime does not support. */
  | 'Unsupported'
  /** A pod names a Secret, ConfigMap or key that does not exist (yet). */
  | 'ReferenceMissing'

export class RuntimeError extends Error {
  override readonly name = 'RuntimeError'
  readonly reason: RuntimeErrorReason
  constructor(reason: RuntimeErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** The code of a Node system error (`ENOENT`, `ENOSPC`), or undefined. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Returns the message of any thrown value. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
