/**
 * Which restarts a pod is to have had: the one that is asked for, until it has been, and the one in the region's window, while
 * that goes on. What an object says that was put back out of a backup is of another time, so each ends at its deadline
 * and none is for nothing: a database that serves is restarted for no old word of its own.
 */
// @ts-nocheck

import {
  annotations,
  appliedDigests,
  askedBy,
  desiredDigests,
  desiredHash,
  isInForce,
  type ManagedDatabase,
} from '../../../crds/index.ts'
import { restartMark } from '../../workload/children/stateful-set.ts'
import { isWorthRestart } from '../../workload/plan/pending-restart.ts'
import type { Newest, Restarts } from '../../workload/plan/restart-marks.ts'
import type { Observed } from '../observed.ts'

/** `maintenanceMs`: how long the restart in a window may take. */
type Time = { now: number; maintenanceMs: number }

/** The mark of a restart that is asked for and has not been; nothing of that before the database ever served. */
function askedMark(database: ManagedDatabase): string | undefined {
  const mark = restartMark(database.metadata.annotations?.[annotations.restart])
  if (mark === undefined || database.status?.appliedHash === undefined || isInForce(database)) return undefined
  const applied = appliedDigests(database)
  const isOther = applied === undefined || applied.restart !== desiredDigests(askedBy(database)).restart
  return isOther ? mark : undefined
}

/** It asks for a deed: what could not be done in time is not done when nobody counts on it any more. */
function isOver({ status, ...database }: ManagedDatabase, now: number): boolean {
  const { operation } = status ?? {}
  return operation?.hash === desiredHash(askedBy(database)) && now >= Date.parse(operation.deadlineAt)
}

function maintenanceMark({ status }: ManagedDatabase, { now, maintenanceMs }: Time): string | undefined {
  const { maintenance } = status ?? {}
  if (maintenance === undefined || maintenance.endedAt !== undefined) return undefined
  return now < Date.parse(maintenance.startedAt) + maintenanceMs ? maintenance.restart : undefined
}

export function restartsOf(observed: Observed, newest: Newest, time: Time): Restarts {
  const { database, pod } = observed
  const asked = askedMark(database)
  const isGivenUp =
    asked !== undefined && isOver(database, time.now) && pod !== undefined && pod.marks.restart !== asked
  const window = maintenanceMark(database, time)
  const isHad = window !== undefined && pod?.marks.maintenance === window
  const isWorth = isHad || isWorthRestart(observed, newest)
  return {
    marks: {
      restart: isGivenUp ? undefined : asked,
      maintenance: isWorth === true ? window : undefined,
    },
    isUnsure: window !== undefined && isWorth === undefined,
    isGivenUp,
  }
}
