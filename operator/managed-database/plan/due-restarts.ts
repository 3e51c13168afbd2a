/**
 * Which restarts a pod is to have had: the one that is asked for, until it has been, and the one in the region's window, while
 * that goes on. What an object says that was put back out of a backup is of another time, so each ends at its deadline
 * and none is for nothing: a database that serves is restarted for no old word of its own.
 */
import { awaitedDeed } from '../../../crds/index.ts'
import { type MaintenanceTime, maintenanceMark } from '../../member/pod/plan/maintenance.ts'
import type { Newest, Restarts } from '../../member/pod/plan/restart-marks.ts'
import type { Observed } from '../observed.ts'
import { isPastDeadline } from '../operation.ts'

export function restartsOf(observed: Observed, newest: Newest, time: MaintenanceTime): Restarts {
  const { database, pod } = observed
  const asked = awaitedDeed(database, 'restart')
  const isGivenUp =
    asked !== undefined && isPastDeadline(database, time.now) && pod !== undefined && pod.marks.restart !== asked
  const { maintenance, isUnsure } = maintenanceMark(observed, newest, time)
  return { marks: { restart: isGivenUp ? undefined : asked, maintenance }, isUnsure, isGivenUp }
}
