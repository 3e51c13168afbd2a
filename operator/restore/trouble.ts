/** What a restore says while its passes fail: the reason, at once, so that nobody waits without knowing it. Pure. */
import { isClusterError } from '../../cluster/index.ts'
import { type Condition, isOpenRestore, type ManagedDatabase, type Restore } from '../../crds/index.ts'
import { no, yes } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { withFindings } from '../objects/run-status.ts'

type Trouble = { reason: 'QuotaExceeded' | 'Refused' | 'NameTaken' | 'Retrying'; message: string }
const reasons: ReadonlySet<string> = new Set<Trouble['reason']>(['QuotaExceeded', 'Refused', 'NameTaken', 'Retrying'])

/** Whether a condition says that passes fail. */
export const isTrouble = (condition: Condition | undefined): condition is Condition =>
  condition !== undefined && reasons.has(condition.reason)

const previousHint = (database: ManagedDatabase | undefined): string => {
  const count = database?.status?.previous?.length ?? 0
  if (count === 0) return ''
  const volumes = count === 1 ? 'a volume' : `${count} volumes`
  return `; ${volumes} of before earlier restores can be deleted: see status.previous of the database`
}

function troubleOf(error: unknown, database: ManagedDatabase | undefined): Trouble {
  if (error instanceof NameTakenError) return { reason: 'NameTaken', message: error.message }
  if (isClusterError(error, 'Forbidden') && error.message.includes('exceeded quota')) {
    const isOfVolume = /persistentvolumeclaims|requests\.storage/.test(error.message)
    const what = isOfVolume ? 'the restored volume beside the present one' : 'what the restore makes'
    const hint = isOfVolume ? previousHint(database) : ''
    return { reason: 'QuotaExceeded', message: `the quota has no space for ${what}: ${error.message}${hint}` }
  }
  if (isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')) return { reason: 'Refused', message: error.message }
  if (isClusterError(error)) return { reason: 'Retrying', message: `the last try failed: ${error.message}` }
  return { reason: 'Retrying', message: 'the last try failed: see the log of the operator' }
}

/** The status of a restore whose pass failed; undefined where nothing is to be said. */
export function troubled(
  restore: Restore,
  database: ManagedDatabase | undefined,
  error: unknown,
  now: number,
): Restore['status'] | undefined {
  // Decided on an old state: the next pass follows at once.
  if (isClusterError(error, 'Conflict') || !isOpenRestore(restore)) return undefined
  const { reason, message } = troubleOf(error, database)
  const findings = { Ready: no('NotCompleted', 'the data are not restored'), Progressing: yes(reason, message) }
  return withFindings(restore, { ...restore.status, phase: restore.status?.phase ?? 'pending' }, findings, now)
}
