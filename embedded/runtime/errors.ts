/** Errors of the runtime, distinguished by `reason`. A message is one line for users and never contains a secret. */

export type RuntimeErrorReason =
  /** Not Linux, or 127.0.0.0/8 cannot be bound here. */
  | 'UnsupportedPlatform'
  /** Another runtime works on this directory. */
  | 'DirectoryInUse'
  /** A directory of ours cannot be made or written. */
  | 'DirectoryNotWritable'
  /** Volumes are in a pool that cannot be mounted. */
  | 'PoolNotMounted'
  /** No binaries for this image on this machine. */
  | 'ImageNotFound'
  /** A volume asks for a family of binaries that this machine no longer has. */
  | 'ImageFamilyGone'
  /** A process did not stop for a snapshot, or was stopped for too long. */
  | 'FreezeFailed'
  /** A process from before would not end. */
  | 'ProcessWouldNotEnd'
  /** A pod uses something that this runtime does not do, or does not take. */
  | 'Unsupported'
  /** A Secret, ConfigMap or key that a pod names is not there (yet). */
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

/** The message of anything thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
