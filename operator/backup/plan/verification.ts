/**
 * Whether a backup is to be verified, what is done for it, and what its end says. A copy of the snapshot is checked in a pod that nobody
 * reaches; copy and pod go as soon as the result is on record. What was begun and lost, with its node or by a crash, is begun anew on
 * a fresh copy, since a copy that was checked half-way is not what was backed up.
 */
import { type Backup, type BackupVerification, verificationAsked, verificationOf } from '../../../crds/index.ts'
import { readVerificationResult } from '../../../instance/verify/result.ts'
import { preciseTime } from '../../../values/time.ts'
import { readMessage } from '../../member/pod/pod.ts'
import { isRelabelled } from '../id.ts'
import type { Observed, VerifierEnd } from '../observed.ts'
import type { Action, BackupDeadlines } from './actions.ts'

type Status = NonNullable<Backup['status']>
type Verification = { actions: Action[]; status: Partial<Status>; wakeAt: number | undefined }

export const verificationPending: Partial<Status> = { verification: 'pending' }

/** Beside the time that any copy is given. */
const slowestBytesPerMs = 5_000

/** One that was taken by itself, unless its database says otherwise. */
export const isVerifiedByItself = ({ backup, source }: Observed): boolean => {
  if (backup.spec.purpose !== 'scheduled' || source?.database.kind !== 'ManagedDatabase') return false
  return source.database.spec.backup.verify !== 'none'
}

/** Of a backup that has ended. */
export function planVerification(observed: Observed, now: number, deadlines: BackupDeadlines): Verification {
  const { backup, verification: facts } = observed
  const { phase, verification } = backup.status ?? {}
  const removed: Verification = {
    actions: facts.isThere ? [{ do: 'end-verification' }] : [],
    status: {},
    wakeAt: undefined,
  }
  if (phase !== 'completed')
    return verification === 'pending' ? { ...removed, status: { verification: undefined } } : removed
  if (verification === 'pending') return underWay(observed, now, deadlines)
  return verificationOf(backup) === 'pending' ? { ...removed, status: verificationPending } : removed
}

/** What is on record of a check that could not be made. */
export const notVerified = (backup: Backup, why: string, now: number): Partial<Status> =>
  ended(backup, { error: `not checked: ${why}`.slice(0, 1000) }, now)

/** For figures: `unchecked` tells nothing of the backup. */
export const outcomeOf = ({ error, faults }: BackupVerification): 'verified' | 'damaged' | 'unchecked' => {
  if (error === undefined) return 'verified'
  return faults === undefined ? 'unchecked' : 'damaged'
}

/** So many copies are made of a backup before it is told that it cannot be checked. */
const mostTries = 3

type Found = Omit<BackupVerification, 'endedAt' | 'asked'>

function ended(backup: Backup, result: Found, now: number): Partial<Status> {
  const asked = verificationAsked(backup)
  return {
    verification: result.error === undefined ? 'verified' : 'failed',
    verificationTries: undefined,
    verificationResult: { endedAt: preciseTime(now), ...result, ...(asked === undefined ? {} : { asked }) },
  }
}

function underWay(observed: Observed, now: number, { verificationMs }: BackupDeadlines): Verification {
  const { backup, id, verification: facts } = observed
  const waiting: Verification = { actions: [], status: {}, wakeAt: undefined }
  const giveUp = (why: string): Verification => ({ ...waiting, status: notVerified(backup, why, now) })
  const { pod, isThere, isTurn, place } = facts
  if (pod?.end !== undefined) {
    const found = resultOf(pod.end)
    const { verificationTries: tries = 0 } = backup.status ?? {}
    if (found.faults !== undefined || tries + 1 >= mostTries) return { ...waiting, status: ended(backup, found, now) }
    // What ended without a word, as by the loss of its node or a kill, says nothing of the backup.
    const counted = pod.isGoing ? {} : { verificationTries: tries + 1 }
    return { ...waiting, actions: [{ do: 'end-verification' }], status: counted }
  }
  // It would wait for a snapshot that is not there, and others for it.
  if (id !== undefined && isRelabelled(backup, id))
    return giveUp('its label espalier.dev/id is not the one that it was made with')
  if (place === undefined)
    return giveUp(
      'what it is a backup of is gone, and with it where its data can run: make a new database of it instead',
    )
  if (pod === undefined && isThere) return { ...waiting, actions: [{ do: 'end-verification' }] }
  if (pod === undefined) return { ...waiting, actions: isTurn ? [{ do: 'begin-verification' }] : [] }
  if (pod.isGoing || !facts.claim) return { ...waiting, actions: [{ do: 'end-verification' }] }
  const until = pod.madeAt + verificationMs + (backup.status?.sizeBytes ?? 0) / slowestBytesPerMs
  if (now >= until) return giveUp(`a copy of it was not through after ${minutes(now - pod.madeAt)}`)
  return { ...waiting, wakeAt: until }
}

const minutes = (ms: number): string => `${Math.round(ms / 60_000)} minutes`

function resultOf({ exitCode, message }: VerifierEnd): Found {
  const result = exitCode === 0 ? readVerificationResult(message) : undefined
  if (result === undefined) {
    const told = readMessage(message) || 'it said nothing'
    return { error: `not checked: its copy ended with code ${exitCode}: ${told}`.slice(0, 1000) }
  }
  const { findings, ...counts } = result
  const { faults } = counts
  const first = findings.join('; ')
  return { ...counts, ...(faults === 0 ? {} : { error: `${faults} found: ${first}`.slice(0, 1000) }) }
}
