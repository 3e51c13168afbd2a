/**
 * What is known of the data's volume. Once it has been recorded it is the only one: where it is gone, or where what
 * stands on it is another's, the database is `failed`, and nothing is ever initialised in its place.
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
      `the volume holds the data of system ${answered.systemIdentifier}; this database is ${expected}`,
    )
  const trouble = pod?.trouble
  const refusal = trouble?.refusal === undefined ? undefined : fatalRefusals[trouble.refusal]
  if (trouble && refusal !== undefined) return fatal(refusal, trouble.message)
  if (state === 'terminating' || state === 'released')
    return { finding: no('VolumeBeingDeleted', deletionMessage(observed)) }
  if (trouble?.diskFull) return { finding: no('DiskFull', `the volume is full: ${trouble.message}`) }
  if (answered?.hasRoom === false)
    return { finding: no('DiskFull', 'the volume is full: Postgres can read, and cannot write') }
  if (writeHangs(observed)) return { finding: no('WriteHangs', writeHangsMessage) }
  if (answered?.checksumFailures !== undefined)
    return { finding: no(checksumFailures, checksumMessage(answered.checksumFailures)) }
  const { awaitsSource } = instance
  if (awaitsSource && claim?.status?.phase !== 'Bound')
    return { finding: no(awaitsSource.reason, awaitsSource.message) }
  if (claim === undefined) return { finding: no('Pending', 'the volume is being claimed') }
  const bound = claim.status?.phase === 'Bound' || pod?.address !== undefined
  return {
    finding: bound
      ? yes('Bound', 'the volume is there')
      : no('Pending', unprovisionedMessage(observed) ?? 'the volume is being made'),
  }
}

/** What is gone, what is left, and what brings it back. */
function lostMessage(observed: ObservedMember, { claim: name, uid }: VolumeRecord): string {
  const { instance, children, volumes } = observed
  const isReplaced = children.claim !== undefined && children.claim.metadata.uid !== uid
  const gone = `the volume claim ${name} that holds the data is gone${isReplaced ? '; another one has its name' : ''}`
  const runs = mayRunOnRecordedVolume(observed) ? '; Postgres runs on, and is not stopped' : ''
  const isWaiting = isReplaced && volumes.recorded !== undefined && outlivesClaim(observed)
  const remedy = isWaiting
    ? `the data are kept on volume ${volumes.recorded?.name}: suspend the database and delete that claim, and the volume gets one of its own`
    : `put it back with its volume, or restore the database from a backup${instance.metadata.deletionTimestamp === undefined ? '. Do not delete the database: its backups would be deleted as well' : ''}`
  return `${gone}${runs}; ${remedy}`
}

/** What will become of the data of a volume that somebody deletes, and when. */
function deletionMessage(observed: ObservedMember): string {
  const { instance, children, volumes } = observed
  const { claim = '', volumeName } = instance.status?.volume ?? {}
  if (volumeStateOf(observed) === 'released')
    return `the volume claim ${claim} was deleted: its volume ${volumeName} is kept, and is being bound to a new claim`
  const isClaim = children.claim?.metadata.deletionTimestamp !== undefined
  const what = isClaim ? `the volume claim ${claim}` : `the volume ${volumes.bound?.name}`
  if (!outlivesClaim(observed))
    return `somebody deletes ${what}: it goes when Postgres stops, so nothing of ours stops Postgres before the volume is set to Retain`
  return `somebody deletes ${what}: the data are kept on volume ${volumeName}, which is set to Retain. Postgres serves on; when it next stops (suspended and resumed, resized or restarted) the volume is bound to a new claim, and nothing is lost`
}
