/**
 * The restarts that a database's pod needs: the one that a user requested, until it is done, and the one in the region's window,
 * while that is open. An object that was created again from a backup carries old requests, so each ends at its deadline: such a
 * request never restarts a database that serves.
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
