/** The restarts that an owner requests, as input of the members' plans. Pure. */

import { maintenanceAnnotationFor } from '../../member/pod/plan/maintenance.ts'
import type { RestartsOf } from '../../member/pod/plan/restart-annotations.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import type { Observed } from '../observed.ts'

/** `restart`: the annotation of the requested restart. `isGivenUp`: its deadline passed before it was done. */
type Requested = { restart: string | undefined; isGivenUp: boolean }

/** Returns the requested restart, and the restart in the region's window while the window is open. */
export const requestedRestarts =
  (observed: Observed, { restart, isGivenUp }: Requested, time: MaintenanceTime): RestartsOf =>
  newest => {
    const { maintenance, isUnsure } = maintenanceAnnotationFor(observed, newest, time)
    return { restartAnnotations: { restart, maintenance }, isUnsure, isGivenUp }
  }
