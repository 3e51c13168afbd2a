/**
 * The condition Archiving: whether the WAL of a database with the durable tier arrives in the archive. False after one
 * minute in which WAL was written and none arrived. Messages contain no changing numbers, so that the status is written
 * once. Pure.
 */
import { type Finding, no, yes } from '../objects/conditions.ts'
import type { ArchiveStatus } from './contract.ts'

/** `at`: of the answer, in ms since the epoch. `failure`: of the last request, if that failed. */
export type AgentAnswer = { status: ArchiveStatus | undefined; at: number; failure: string | undefined }

export type ArchivingFacts = {
  hasArchive: boolean
  isSuspended: boolean
  /** `unprepared`: created before the durable tier was enabled. */
  pod: 'absent' | 'unprepared' | 'prepared'
  /** Undefined before the agent has answered. */
  agent: AgentAnswer | undefined
  /** Since when it is starting, in ms since the epoch; undefined if it has archived since then. */
  startingSince: number | undefined
}

/** WAL has to be in the archive within this time. */
const lateMs = 60_000

/** The reason while Postgres and its agent start. */
export const starting = 'Starting'
const startingMessage = 'Postgres and its agent have started within the last minute; nothing is archived yet'

/** Reasons that need no attention. */
export const expectedReasons: ReadonlySet<string> = new Set(['Suspended', 'RestartPending', 'NotRunning', starting])

/**
 * In its first minute an agent waits for Postgres, which may be recovering. If it restarts repeatedly, the minute does
 * not start again.
 */
function isStarting({ archivedAt, startedAt }: ArchiveStatus, at: number, seenMs: number): boolean {
  return archivedAt === null && startedAt !== undefined && at - startedAt < lateMs && seenMs < lateMs
}

/** Durations use the clock of the agent, which set these times; the operator's may differ. */
function ofStatus(status: ArchiveStatus, startingSince: number | undefined, now: number): Finding {
  const { state, since, error, archivedAt, lagBytes, waitingFiles, oldestWaitingSince } = status
  const at = status.now ?? now
  const why = error === null ? '' : `: ${error.message}`
  if (state === 'conflict')
    return no('Conflict', `another server has archived other content under the identity of this database${why}`)
  if (state === 'failing' && isStarting(status, at, now - (startingSince ?? now))) return no(starting, startingMessage)
  if (state === 'failing') return no('Failing', `the agent cannot archive, and WAL is kept on the volume${why}`)
  const isFileLate = waitingFiles > 0 && oldestWaitingSince !== null && at - oldestWaitingSince >= lateMs
  const isTailLate = lagBytes !== null && lagBytes > 0 && at - (archivedAt ?? since) >= lateMs
  return isFileLate || isTailLate
    ? no('Late', 'WAL older than a minute is not in the archive yet, and is kept on the volume')
    : yes('Archiving', 'WAL is in the archive within a minute')
}

/** Undefined if nothing is known yet. */
export function archivingFinding(facts: ArchivingFacts, now: number): Finding | undefined {
  const { hasArchive, isSuspended, pod, agent } = facts
  if (!hasArchive) return no('NoArchive', 'this installation has no archive (archive.enabled of the chart)')
  if (isSuspended) return no('Suspended', 'the database is suspended: nothing is written')
  if (pod === 'absent') return no('NotRunning', 'Postgres does not run')
  if (pod === 'unprepared') return no('RestartPending', 'it archives after its next restart')
  if (agent === undefined) return undefined
  const { status, at, failure } = agent
  const isOld = now - at >= lateMs
  if (failure !== undefined && isOld) return no('AgentUnreachable', `the agent of the pod does not answer: ${failure}`)
  if (failure !== undefined && status === undefined) return no(starting, startingMessage)
  if (status === undefined || isOld) return undefined
  return ofStatus(status, facts.startingSince, now)
}
