/**
 * The restarts that are due for a branch's pod. An annotation of the Branch requests a restart. The restart is due
 * until the pod's annotation has the same value. A restart in the maintenance window is due from
 * `status.maintenance.startedAt` until `endedAt` is set or the deadline passes.
 */
import { annotations } from '../../../crds/index.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import { requestedRestarts } from '../../workload/plan/restarts.ts'
import type { Observed } from '../observed.ts'

export function restartsOf(observed: Observed, time: MaintenanceTime) {
  const restart = observed.branch.metadata.annotations?.[annotations.restart]
  return requestedRestarts(observed, { restart, isGivenUp: false }, time)
}
