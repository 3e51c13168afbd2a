/**
 * What is known of the data's volume. Once it has been recorded it is the only one: where it is gone, or where what
 * stands on it is another's, the database is `failed`, and nothing is ever initialised in its place.
 */
import type { RefusalReason } from '../../instance/refusal.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'
import { type Finding, no, yes } from './conditions.ts'
import { checksumFailures, checksumMessage, writeHangs, writeHangsMessage } from './health.ts'

/** What `espalier instance prepare` refuses because of what it found on the volume. */
const fatalRefusals: Partial<Record<RefusalReason, string>> = {
  'data-lost': 'VolumeLost',
  'volume-empty': 'VolumeLost',
  'other-database': 'IdentityMismatch',
  'other-incarnation': 'IdentityMismatch',
  'wrong-version': 'IdentityMismatch',
  'unknown-data': 'IdentityMismatch',
  'identity-unreadable': 'IdentityMismatch',
}

/** Whether the claim that holds the data is gone, or is another one under its name. */
export function isLost({ database, children }: Observed): boolean {
  const recorded = database.status?.volume
  if (recorded === undefined) return false
  const { claim } = children
  return claim === undefined || claim.metadata.uid !== recorded.uid || claim.status?.phase === 'Lost'
}

const fatal = (reason: string, message: string) => ({ finding: no(reason, message), fatal: true })

export function volumeFinding(
  observed: Observed,
  answered: Assessment['answered'],
): { finding: Finding; fatal?: boolean } {
  const { database, children, pod } = observed
  const recorded = database.status?.volume
  const { claim } = children
  if (recorded !== undefined && isLost(observed))
    return fatal(
      'VolumeLost',
      `the volume claim ${recorded.claim} that holds the data is gone${claim === undefined ? '' : '; another one has its name'}; restore the database from a backup`,
    )
  if (recorded !== undefined && answered !== undefined && answered.systemIdentifier !== recorded.systemIdentifier)
    return fatal(
      'IdentityMismatch',
      `the volume holds the data of system ${answered.systemIdentifier}; this database is ${recorded.systemIdentifier}`,
    )
  const trouble = pod?.trouble
  const refusal = trouble?.refusal === undefined ? undefined : fatalRefusals[trouble.refusal]
  if (trouble && refusal !== undefined) return fatal(refusal, trouble.message)
  if (trouble?.diskFull) return { finding: no('DiskFull', `the volume is full: ${trouble.message}`) }
  if (answered?.hasRoom === false)
    return { finding: no('DiskFull', 'the volume is full: Postgres can read, and cannot write') }
  if (writeHangs(observed)) return { finding: no('WriteHangs', writeHangsMessage) }
  if (answered?.checksumFailures !== undefined)
    return { finding: no(checksumFailures, checksumMessage(answered.checksumFailures)) }
  if (claim === undefined) return { finding: no('Pending', 'the volume is being claimed') }
  if (claim.metadata.deletionTimestamp !== undefined)
    return { finding: no('VolumeBeingDeleted', `somebody deletes ${claim.metadata.name}: it goes when Postgres stops`) }
  const bound = claim.status?.phase === 'Bound' || pod?.address !== undefined
  return { finding: bound ? yes('Bound', 'the volume is there') : no('Pending', 'the volume is being made') }
}
