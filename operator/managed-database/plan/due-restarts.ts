/**
 * The restarts that a database's pod is due: the one that a user requested, until it is done, and the one in the
 * region's window, while that is open. An object created again from a backup carries old requests, so each request ends
 * at its deadline and cannot restart a serving database later.
 */
import { pendingRequest } from '../../../crds/index.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import { requestedRestarts } from '../../workload/plan/restarts.ts'
import type { Observed } from '../observed.ts'
import { isPastDeadline } from '../operation.ts'

export function restartsOf(observed: Observed, time: MaintenanceTime) {
  const { database, pod } = observed
  const requested = pendingRequest(database, 'restart')
  const isGivenUp =
    requested !== undefined &&
    isPastDeadline(database, time.now) &&
    pod !== undefined &&
    pod.restartAnnotations.restart !== requested
  return requestedRestarts(observed, { restart: isGivenUp ? undefined : requested, isGivenUp }, time)
}
