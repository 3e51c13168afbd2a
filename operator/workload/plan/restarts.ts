/** The restarts that an owner requests, as members plan them. Pure. */

import { maintenanceAnnotationFor } from '../../member/pod/plan/maintenance.ts'
import type { RestartsOf } from '../../member/pod/plan/restart-annotations.ts'
import type { MaintenanceTime } from '../../objects/maintenance.ts'
import type { Observed } from '../observed.ts'

/** `restart`: the annotation of the requested one. `isGivenUp`: it was not done in time. */
type Requested = { restart: string | undefined; isGivenUp: boolean }

/** Returns the requested restart, and the one in the region's window while that is open. */
export const requestedRestarts =
  (observed: Observed, { restart, isGivenUp }: Requested, time: MaintenanceTime): RestartsOf =>
  newest => {
    const { maintenance, isUnsure } = maintenanceAnnotationFor(observed, newest, time)
    return { restartAnnotations: { restart, maintenance }, isUnsure, isGivenUp }
  }
