/**
 * The restarts to do now: the one that a user requested, and the one of the region's open maintenance window. A request
 * expires at its deadline: a ManagedDatabase recreated from an old manifest contains old requests, which must not
 * restart it later.
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
