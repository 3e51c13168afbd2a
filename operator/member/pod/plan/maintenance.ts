/** The annotation by which a pod records its restart in the region's maintenance window. Pure. */
import { isMaintained, type MaintenanceTime } from '../../../objects/maintenance.ts'
import type { ObservedMember } from '../../observed.ts'
import { isWorthRestart } from './pending-restart.ts'
import type { Newest } from './restart-annotations.ts'

/**
 * Returns the annotation of the window's restart if the pod has had this restart, or if the restart would apply a
 * change. `isUnsure`: Postgres must first report whether a change is pending.
 */
export function maintenanceAnnotationFor(
  observed: ObservedMember,
  newest: Newest,
  time: MaintenanceTime,
): { maintenance: string | undefined; isUnsure: boolean } {
  const { instance, pod } = observed
  const running = instance.status?.maintenance
  if (!isMaintained(running, time)) return { maintenance: undefined, isUnsure: false }
  const isDone = pod?.restartAnnotations.maintenance === running.restart
  const isWorth = isDone || isWorthRestart(observed, newest)
  return { maintenance: isWorth === true ? running.restart : undefined, isUnsure: isWorth === undefined }
}
