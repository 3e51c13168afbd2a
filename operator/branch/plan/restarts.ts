/**
 * Which restarts the pod of a branch is to have had: the one that an annotation asks for, which the pod itself bears once it has had
 * it, and the one in the region's window, while that goes on.
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
