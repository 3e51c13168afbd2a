/**
 * The restarts that a database's pod needs: the one that a user requested, until it is done, and the one in the region's window,
 * while that is open. An object that was created again from a backup carries old requests, so each ends at its deadline: such a
 * request never restarts a database that serves.
 */
import { pendingRequest } from '../../../crds/index.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import { requestedRestarts } from '../../workload/plan/restarts.ts'
import type { Observed } from '../observed.ts'
import { isPastDeadline } from '../operation.ts'

export function restartsOf(observed: Observed, time: MaintenanceTime) {
  const { database, pod } = observed
  const asked = pendingRequest(database, 'restart')
  const isGivenUp =
    asked !== undefined && isPastDeadline(database, time.now) && pod !== undefined && pod.marks.restart !== asked
  return requestedRestarts(observed, { restart: isGivenUp ? undefined : asked, isGivenUp }, time)
}
