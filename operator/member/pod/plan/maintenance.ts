/**
 * The restart in the region's window, which the owner starts by a turn (operator/owner/turn.ts): from then on its status says so. What an
 * object says that was put back out of a backup is of another time, so a window ends at its deadline, and a restart in it is none for
 * nothing.
 */

import { timestamp } from '../../../../values/time.ts'
import type { Maintenance } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import { isWorthRestart } from './pending-restart.ts'
import type { Newest } from './restart-marks.ts'

/** `maintenanceMs`: how long the restart in a window may take. */
export type MaintenanceTime = { now: number; maintenanceMs: number }

const isLate = ({ startedAt }: Maintenance, { now, maintenanceMs }: MaintenanceTime): boolean =>
  now >= Date.parse(startedAt) + maintenanceMs

/** Whether one is under way, and still to be counted on. */
export const isMaintained = (maintenance: Maintenance | undefined, time: MaintenanceTime): maintenance is Maintenance =>
  maintenance !== undefined && maintenance.endedAt === undefined && !isLate(maintenance, time)

/**
 * The mark that the pod is to bear for it, where it has something to bring. `isUnsure`: whether it has is not known: only Postgres can
 * tell.
 */
export function maintenanceMark(
  observed: ObservedMember,
  newest: Newest,
  time: MaintenanceTime,
): { maintenance: string | undefined; isUnsure: boolean } {
  const { instance, pod } = observed
  const running = instance.status?.maintenance
  if (!isMaintained(running, time)) return { maintenance: undefined, isUnsure: false }
  const isHad = pod?.marks.maintenance === running.restart
  const isWorth = isHad || isWorthRestart(observed, newest)
  return { maintenance: isWorth === true ? running.restart : undefined, isUnsure: isWorth === undefined }
}

/** How it goes: done, failed for good or too late. One that failed and has come right since is no failure any more. */
export function maintenanceAfter(
  before: Maintenance | undefined,
  { isDone, isFatal }: { isDone: boolean; isFatal: boolean },
  time: MaintenanceTime,
): Maintenance | undefined {
  if (before === undefined || before.outcome === 'completed') return before
  const endedAt = before.endedAt ?? timestamp(time.now)
  if (isDone && !isFatal) return { ...before, endedAt, outcome: 'completed' }
  return isFatal || isLate(before, time) ? { ...before, endedAt, outcome: 'failed' } : before
}
