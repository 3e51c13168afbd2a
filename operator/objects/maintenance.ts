/**
 * The restart in the region's window, as an owner's status records it after its slot has started it
 * (operator/owner/turn.ts). A status that was restored from a backup may be old, so a restart ends at its deadline.
 * Pure.
 */
import { timestamp } from '../../values/time.ts'
import type { Maintenance } from './instance.ts'

/** `maintenanceMs`: how long the restart in a window may take. */
export type MaintenanceTime = { now: number; maintenanceMs: number }

const isLate = ({ startedAt }: Maintenance, { now, maintenanceMs }: MaintenanceTime): boolean =>
  now >= Date.parse(startedAt) + maintenanceMs

/** Whether a restart in a window has started, has not ended, and has not passed its deadline. */
export const isMaintained = (maintenance: Maintenance | undefined, time: MaintenanceTime): maintenance is Maintenance =>
  maintenance !== undefined && maintenance.endedAt === undefined && !isLate(maintenance, time)

/**
 * Returns the record after a pass: completed, failed or unchanged. A failed restart becomes completed if it is done
 * later.
 */
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
