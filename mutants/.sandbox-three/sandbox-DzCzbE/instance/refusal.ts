/**
 * Why an instance is not made ready, each reason with an exit code of its own: the operator reads the code from the
 * container's status and turns it into a condition.
 */
// @ts-nocheck


/** Exit codes by reason. 64 and 78 are sysexits' "usage" and "configuration", 70 its "software". */
export const exitCodes = {
  usage: 64,
  configuration: 78,
  internal: 70,
  /** The volume belongs to another database. */
  'other-database': 20,
  /** The volume is another incarnation's, and this is not said to be a copy. */
  'other-incarnation': 21,
  /** The volume holds another major version of Postgres. */
  'wrong-version': 22,
  /** The volume was initialised, and its data are gone or not whole. Never initialised again. */
  'data-lost': 23,
  /** The volume is empty, and may not be initialised: the database has run before, on another one. */
  'volume-empty': 24,
  /** The volume holds data without our identity file. */
  'unknown-data': 25,
  /** The identity file is there and cannot be understood. */
  'identity-unreadable': 26,
  'volume-unwritable': 30,
  'disk-full': 31,
  /** The certificate or its key is missing, or Postgres would refuse the key's permissions. */
  tls: 32,
  'initdb-failed': 33,
} as const

export type RefusalReason = keyof typeof exitCodes

export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly reason: RefusalReason
  constructor(reason: RefusalReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

const unwritable = new Set(['EACCES', 'EPERM', 'EROFS', 'EIO'])
const full = new Set(['ENOSPC', 'EDQUOT'])

/** Any error as a Refusal: those of the file system by what they say about the volume. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const message = error instanceof Error ? error.message : String(error)
  if (full.has(code)) return new Refusal('disk-full', `the volume is full: ${message}`, { cause: error })
  if (unwritable.has(code))
    return new Refusal('volume-unwritable', `the volume cannot be written: ${message}`, { cause: error })
  return new Refusal('internal', message, { cause: error })
}

/** The reason behind a container's exit code, if it is one of ours. */
export function reasonOfExitCode(code: number): RefusalReason | undefined {
  for (const [reason, value] of Object.entries(exitCodes)) {
    if (value === code && reason in exitCodes) return reason as RefusalReason // the keys of exitCodes are the reasons
  }
  return undefined
}
