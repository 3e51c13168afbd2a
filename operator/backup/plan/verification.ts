/**
 * Plans the verification of a backup: a pod that accepts no connections checks a copy. The operator deletes copy and
 * pod once the result is recorded. If a node is lost or the pod crashes, the verification starts again on a new copy,
 * because the old one may have been changed.
 */
import { type Backup, type BackupVerification, requestedVerification, verificationOf } from '../../../crds/index.ts'
import { readVerificationResult } from '../../../instance/verify/result.ts'
import { shortened } from '../../../values/text.ts'
import { preciseTime } from '../../../values/time.ts'
import { readMessage } from '../../member/pod/pod.ts'
import { isRelabelled } from '../id.ts'
import type { Observed, VerifierEnd } from '../observed.ts'
import type { Action, BackupDeadlines } from './actions.ts'

type Status = NonNullable<Backup['status']>
type Verification = { actions: Action[]; status: Partial<Status>; requeueAt: number | undefined }

export const verificationPending: Partial<Status> = { verification: 'pending' }

/** The slowest expected speed of a verification. It extends the timeout for large copies. */
const slowestBytesPerMs = 5_000

/** Whether it is a scheduled backup whose database does not disable verification. */
export const isVerifiedAutomatically = ({ backup, source }: Observed): boolean => {
  if (backup.spec.purpose !== 'scheduled' || source?.database.kind !== 'ManagedDatabase') return false
  return source.database.spec.backup.verify !== 'none'
}

/** Plans the verification of a backup that has ended. */
export function planVerification(observed: Observed, now: number, deadlines: BackupDeadlines): Verification {
  const { backup, verification: facts } = observed
  const { phase, verification } = backup.status ?? {}
  const removed: Verification = {
    actions: facts.hasObjects ? [{ do: 'end-verification' }] : [],
    status: {},
    requeueAt: undefined,
  }
  if (phase !== 'completed')
    return verification === 'pending' ? { ...removed, status: { verification: undefined } } : removed
  if (verification === 'pending') return underWay(observed, now, deadlines)
  const { proof } = observed
  if (verificationOf(backup) === 'pending' || proof?.isDue) return { ...removed, status: verificationPending }
  return proof === undefined ? removed : { ...removed, requeueAt: proof.retryAt }
}

/** The status of a backup that could not be verified. */
export const notVerified = (backup: Backup, why: string, now: number): Partial<Status> =>
  ended(backup, { error: shortened(`not verified: ${why}`, 1000) }, now)

/** The result for metrics. `unchecked`: the verification had no result. */
export const outcomeOf = ({ error, faults }: BackupVerification): 'verified' | 'damaged' | 'unchecked' => {
  if (error === undefined) return 'verified'
  return faults === undefined ? 'unchecked' : 'damaged'
}

/** After this many copies without a result, the backup is reported as not verified. */
const mostTries = 3

type Found = Omit<BackupVerification, 'endedAt' | 'asked'>

function ended(backup: Backup, result: Found, now: number): Partial<Status> {
  const requested = requestedVerification(backup)
  return {
    verification: result.error === undefined ? 'verified' : 'failed',
    verificationTries: undefined,
    verificationResult: {
      endedAt: preciseTime(now),
      ...result,
      ...(requested === undefined ? {} : { asked: requested }),
    },
  }
}

function underWay(observed: Observed, now: number, { verificationMs }: BackupDeadlines): Verification {
  const { backup, id, verification: facts } = observed
  const waiting: Verification = { actions: [], status: {}, requeueAt: undefined }
  const giveUp = (why: string): Verification => ({ ...waiting, status: notVerified(backup, why, now) })
  const { pod, hasObjects, hasSlot, target } = facts
  if (pod?.end !== undefined) {
    const found = resultOf(pod.end)
    const { verificationTries: tries = 0 } = backup.status ?? {}
    if (found.faults !== undefined || tries + 1 >= mostTries) return { ...waiting, status: ended(backup, found, now) }
    // Without a result, for example after the node was lost, it is unknown whether the backup is intact.
    const counted = pod.isDeleting ? {} : { verificationTries: tries + 1 }
    return { ...waiting, actions: [{ do: 'end-verification' }], status: counted }
  }
  // The copy would wait for a snapshot that does not exist, and would keep a verification slot.
  if (id !== undefined && isRelabelled(backup, id))
    return giveUp('its label espalier.dev/id was changed after the backup was created')
  if (target === undefined)
    return giveUp(
      'the database or branch no longer exists, so the region for a copy is unknown: create a database from the backup instead',
    )
  if (backup.spec.kind === 'durable' && observed.durable?.hasArchive !== true)
    return giveUp('this installation no longer has an archive')
  if (pod === undefined && hasObjects) return { ...waiting, actions: [{ do: 'end-verification' }] }
  if (pod === undefined) return { ...waiting, actions: hasSlot ? [{ do: 'begin-verification' }] : [] }
  if (pod.isDeleting || !facts.claim) return { ...waiting, actions: [{ do: 'end-verification' }] }
  const until = pod.madeAt + verificationMs + (backup.status?.sizeBytes ?? 0) / slowestBytesPerMs
  if (now >= until) return giveUp(`the verification of a copy did not end within ${minutes(now - pod.madeAt)}`)
  return { ...waiting, requeueAt: until }
}

const minutes = (ms: number): string => `${Math.round(ms / 60_000)} minutes`

function resultOf({ exitCode, message }: VerifierEnd): Found {
  const result = exitCode === 0 ? readVerificationResult(message) : undefined
  if (result === undefined) {
    const output = readMessage(message) || 'it reported nothing'
    return { error: shortened(`not verified: the verification pod exited with code ${exitCode}: ${output}`, 1000) }
  }
  const { findings, ...counts } = result
  const { faults } = counts
  const first = findings.join('; ')
  return {
    ...counts,
    ...(faults === 0
      ? {}
      : { error: shortened(`${faults} ${faults === 1 ? 'fault' : 'faults'} found: ${first}`, 1000) }),
  }
}
