/** The restarts that an owner requests: the owner decides which, and when. */

import type { ObservedMember } from '../../observed.ts'
import { maintenanceAnnotation, type RestartAnnotations, restartAnnotation } from '../stateful-set.ts'

/** What the next pod would be created from and run with. */
export type Newest = {
  /** The digest of the template for the next restart, which the StatefulSet need not have yet; and its image. */
  newestTemplate: string | undefined
  image: string | undefined
  /** Digest of the configuration files, as Postgres reports it. */
  configurationDigest: string | undefined
}

export type Restarts = {
  /** Restart annotations that are requested, or already on the pod. */
  restartAnnotations: RestartAnnotations
  /** Only Postgres can report whether the restart in the region's window would change anything, and has not yet. */
  isUnsure: boolean
  /** The requested restart was not done within its timeout, and is abandoned. */
  isGivenUp: boolean
}

/** Returns the restarts, given what the next pod would be created from. */
export type RestartsOf = (newest: Newest) => Restarts

/** For an owner that never requests one. */
export const noRestarts: RestartsOf = () => ({
  restartAnnotations: { restart: undefined, maintenance: undefined },
  isUnsure: false,
  isGivenUp: false,
})

/** The restart annotations of the template. Those of finished restarts remain, so that their end changes nothing. */
export function templateRestartAnnotations(
  { children }: ObservedMember,
  { restartAnnotations }: Restarts,
): RestartAnnotations {
  const live = children.statefulSet?.spec?.template.metadata?.annotations
  return {
    restart: restartAnnotations.restart ?? live?.[restartAnnotation],
    maintenance: restartAnnotations.maintenance ?? live?.[maintenanceAnnotation],
  }
}
