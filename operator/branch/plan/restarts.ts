/**
 * The restarts that a branch's pod needs: the one that an annotation requests, which the pod's own annotation reports once it is
 * done, and the one in the region's window, while that is open.
 */
import { annotations } from '../../../crds/index.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import { requestedRestarts } from '../../workload/plan/restarts.ts'
import type { Observed } from '../observed.ts'

export function restartsOf(observed: Observed, time: MaintenanceTime) {
  const restart = observed.branch.metadata.annotations?.[annotations.restart]
  return requestedRestarts(observed, { restart, isGivenUp: false }, time)
}
