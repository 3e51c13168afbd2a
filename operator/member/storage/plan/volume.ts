/**
 * The condition of the data's volume. After a volume is recorded, the database can have no other volume. If the volume
 * is lost, or contains another database's data, the database is `failed`. The operator never initialises another volume
 * in its place.
 */

import type { RefusalReason } from '../../../../instance/refusal.ts'
import { checksumFailures, type Finding, no, yes } from '../../../objects/conditions.ts'
import type { VolumeRecord } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import type { Answered } from '../../postgres/answer.ts'
import { checksumMessage, writeHangs, writeHangsMessage } from '../../postgres/plan/health.ts'
import { retainedMessage } from './retained.ts'
import { unprovisionedMessage } from './unprovisioned.ts'
import { mayRunOnRecordedVolume, outlivesClaim, volumeStateOf } from './volume-state.ts'

/** Refusals by `espalier instance prepare` because of the data on the volume. They are fatal. */
const fatalRefusals: Partial<Record<RefusalReason, string>> = {
  'data-lost': 'VolumeLost',
  'volume-empty': 'VolumeLost',
  'other-database': 'IdentityMismatch',
  'other-incarnation': 'IdentityMismatch',
  'wrong-version': 'IdentityMismatch',
  'unknown-data': 'IdentityMismatch',
  'identity-unreadable': 'IdentityMismatch',
  'archive-damaged': 'ArchiveDamaged',
  'target-not-reached': 'TargetNotReached',
  'recovery-failed': 'RecoveryFailed',
}

const fatal = (reason: string, message: string) => ({ finding: no(reason, message), fatal: true })

export function volumeFinding(observed: ObservedMember, answered: Answered): { finding: Finding; fatal?: boolean } {
  const { instance, children, pod } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  const retained = retainedMessage(observed)
  if (retained !== undefined) return fatal('VolumeRetained', retained)
  const state = volumeStateOf(observed)
  if (recorded !== undefined && state === 'lost') return fatal('VolumeLost', lostMessage(observed, recorded))
  const expected = recorded?.systemIdentifier ?? instance.dataSource?.systemIdentifier
  if (expected !== undefined && answered !== undefined && answered.systemIdentifier !== expected)
    return fatal(
      'IdentityMismatch',
      `the volume contains data with the system identifier ${answered.systemIdentifier}; this database has ${expected}`,
    )
  const problem = pod?.problem
  const refusal = problem?.refusal === undefined ? undefined : fatalRefusals[problem.refusal]
  if (problem && refusal !== undefined) return fatal(refusal, problem.message)
  if (state === 'terminating' || state === 'released')
    return { finding: no('VolumeBeingDeleted', deletionMessage(observed)) }
  if (problem?.diskFull) return { finding: no('DiskFull', `the volume is full: ${problem.message}`) }
  if (answered?.hasFreeSpace === false)
    return { finding: no('DiskFull', 'the volume is full: Postgres can read, but cannot write') }
  if (writeHangs(observed)) return { finding: no('WriteHangs', writeHangsMessage) }
  if (answered?.checksumFailures !== undefined)
    return { finding: no(checksumFailures, checksumMessage(answered.checksumFailures)) }
  const { awaitsSource } = instance
  if (awaitsSource && claim?.status?.phase !== 'Bound')
    return { finding: no(awaitsSource.reason, awaitsSource.message) }
  if (claim === undefined) return { finding: no('Pending', 'the volume claim is being created') }
  const bound = claim.status?.phase === 'Bound' || pod?.address !== undefined
  return {
    finding: bound
      ? yes('Bound', 'the volume is bound')
      : no('Pending', unprovisionedMessage(observed) ?? 'the volume is being created'),
  }
}

/** What was deleted, what remains, and how to recover the data. */
function lostMessage(observed: ObservedMember, { claim: name, uid }: VolumeRecord): string {
  const { instance, children, volumes } = observed
  const isReplaced = children.claim !== undefined && children.claim.metadata.uid !== uid
  const deletedText = `the database's volume claim ${name} was deleted${isReplaced ? '; another claim has its name' : ''}`
  const runs = mayRunOnRecordedVolume(observed) ? '; Postgres still runs, and the operator does not stop it' : ''
  const isWaiting = isReplaced && volumes.recorded !== undefined && outlivesClaim(observed)
  const remedy = isWaiting
    ? `the data are retained on volume ${volumes.recorded?.name}: suspend the database and delete that claim; the operator then creates a new claim for the volume`
    : `restore the claim with its volume, or restore the database from a backup${instance.metadata.deletionTimestamp === undefined ? '. Do not delete the database: that deletes its backups too' : ''}`
  return `${deletedText}${runs}; ${remedy}`
}

/** What happens to the data of a volume that is being deleted, and when. */
function deletionMessage(observed: ObservedMember): string {
  const { instance, children, volumes } = observed
  const { claim = '', volumeName } = instance.status?.volume ?? {}
  if (volumeStateOf(observed) === 'released')
    return `the volume claim ${claim} was deleted: its volume ${volumeName} is retained, and is being bound to a new claim`
  const isClaim = children.claim?.metadata.deletionTimestamp !== undefined
  const what = isClaim ? `the volume claim ${claim}` : `the volume ${volumes.bound?.name}`
  if (!outlivesClaim(observed))
    return `${what} is being deleted: the deletion completes when Postgres stops, so the operator does not stop Postgres before the volume is set to Retain`
  return `${what} is being deleted: the data are retained on volume ${volumeName}, which is set to Retain. Postgres still serves; when it next stops (suspend and resume, resize or restart) the volume is bound to a new claim, and no data are lost`
}
