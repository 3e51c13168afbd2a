/**
 * Why an instance cannot be prepared. Each reason has its own exit code. The operator reads the code from the
 * container's status and sets a condition.
 */

/** Exit codes by reason. 64, 70 and 78 are the codes of sysexits for "usage", "software" and "configuration". */
export const exitCodes = {
  usage: 64,
  configuration: 78,
  internal: 70,
  /** The volume belongs to another database. */
  'other-database': 20,
  /** The volume belongs to another incarnation, and is not declared as a copy. */
  'other-incarnation': 21,
  /** The volume contains another major version of Postgres. */
  'wrong-version': 22,
  /** The volume was initialised, and its data are missing or incomplete. It is never initialised again. */
  'data-lost': 23,
  /** The volume is empty, and may not be initialised: the database has run before, on another volume. */
  'volume-empty': 24,
  /** The volume contains data without Espalier's identity file. */
  'unknown-data': 25,
  /** The identity file exists but cannot be parsed. */
  'identity-unreadable': 26,
  'volume-unwritable': 30,
  'disk-full': 31,
  /** The certificate or its key is missing, or Postgres would refuse the key's permissions. */
  tls: 32,
  'initdb-failed': 33,
  /** The archive does not answer, or fails. */
  'archive-unavailable': 40,
  /** An object of the archive is missing or damaged. */
  'archive-damaged': 41,
  /** WAL in the archive ends before the requested moment. */
  'target-not-reached': 42,
  /** Postgres could not replay the archived WAL. */
  'recovery-failed': 43,
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

/** Converts any error to a Refusal. File system errors are converted by their meaning for the volume. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const message = error instanceof Error ? error.message : String(error)
  if (full.has(code)) return new Refusal('disk-full', `the volume is full: ${message}`, { cause: error })
  if (unwritable.has(code))
    return new Refusal('volume-unwritable', `the volume cannot be written: ${message}`, { cause: error })
  return new Refusal('internal', message, { cause: error })
}

/** The reason for a container's exit code; undefined if the code has no reason. */
export function reasonOfExitCode(code: number): RefusalReason | undefined {
  for (const [reason, value] of Object.entries(exitCodes)) {
    if (value === code && reason in exitCodes) return reason as RefusalReason // the keys of exitCodes are the reasons
  }
  return undefined
}
