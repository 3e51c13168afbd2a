/**
 * The condition Archiving: whether WAL of a database with the durable tier reaches the archive. False if Postgres wrote
 * WAL and none of it reached the archive for one minute. Messages contain no changing numbers, so that the status is
 * written only once. Pure.
 */
import { type Finding, no, yes } from '../objects/conditions.ts'
import type { ArchiveStatus } from './contract.ts'

/** `at`: the time of the answer, in ms since the epoch. `failure`: the error of the last request, if it failed. */
export type AgentAnswer = { status: ArchiveStatus | undefined; at: number; failure: string | undefined }

export type ArchivingFacts = {
  hasArchive: boolean
  isSuspended: boolean
  /** `unprepared`: the pod was created before the durable tier was enabled. */
  pod: 'absent' | 'unprepared' | 'prepared'
  /** Undefined until the agent has answered. */
  agent: AgentAnswer | undefined
  /**
   * The time since which the agent has been starting, in ms since the epoch. Undefined if it has archived since then.
   */
  startingSince: number | undefined
}

/** WAL must be in the archive within this time. */
const lateMs = 60_000

/** The reason while Postgres and its agent start. */
export const starting = 'Starting'
const startingMessage = 'Postgres and its agent have started within the last minute; nothing is archived yet'

/** Reasons that need no attention. */
export const expectedReasons: ReadonlySet<string> = new Set(['Suspended', 'RestartPending', 'NotRunning', starting])

/**
 * In its first minute an agent waits for Postgres, which may be recovering. If the agent restarts repeatedly, the
 * minute does not begin again.
 */
function isStarting({ archivedAt, startedAt }: ArchiveStatus, at: number, seenMs: number): boolean {
  return archivedAt === null && startedAt !== undefined && at - startedAt < lateMs && seenMs < lateMs
}

/** Durations use the agent's clock, which set these times. The operator's clock may differ. */
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
  if (pod === 'unprepared') return no('RestartPending', 'the database archives after its next restart')
  if (agent === undefined) return undefined
  const { status, at, failure } = agent
  const isOld = now - at >= lateMs
  if (failure !== undefined && isOld) return no('AgentUnreachable', `the agent of the pod does not answer: ${failure}`)
  if (failure !== undefined && status === undefined) return no(starting, startingMessage)
  if (status === undefined || isOld) return undefined
  return ofStatus(status, facts.startingSince, now)
}
