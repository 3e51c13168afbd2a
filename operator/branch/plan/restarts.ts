/**
 * The restarts that a branch's pod needs: the one that an annotation requests, which the pod's own annotation reports once it is
 * done, and the one in the region's window, while that is open.
 */
import { annotations } from '../../../crds/index.ts'
import { type MaintenanceTime, maintenanceMark } from '../../member/pod/plan/maintenance.ts'
import type { Newest, Restarts } from '../../member/pod/plan/restart-marks.ts'
import type { Observed } from '../observed.ts'

export function restartsOf(observed: Observed, newest: Newest, time: MaintenanceTime): Restarts {
  const asked = observed.branch.metadata.annotations?.[annotations.restart]
  const { maintenance, isUnsure } = maintenanceMark(observed, newest, time)
  return { marks: { restart: asked, maintenance }, isUnsure, isGivenUp: false }
}
