/** The restarts that an owner requests. The owner decides which restarts are done, and when. */

import type { ObservedMember } from '../../observed.ts'
import { maintenanceAnnotation, type RestartAnnotations, restartAnnotation } from '../stateful-set.ts'

/** The template, image and configuration that the next pod would get. */
export type Newest = {
  /** The digest of the template for the next restart. The StatefulSet may still have another template. */
  newestTemplate: string | undefined
  /** The image of that template. */
  image: string | undefined
  /** Digest of the configuration files, as Postgres reports it. */
  configurationDigest: string | undefined
}

export type Restarts = {
  /** Restart annotations of requested restarts, or of restarts that the pod has had. */
  restartAnnotations: RestartAnnotations
  /**
   * Only Postgres can report whether the restart in the region's window would apply a change, and Postgres has not
   * answered yet.
   */
  isUnsure: boolean
  /** The requested restart was not done within its timeout. The operator no longer tries it. */
  isGivenUp: boolean
}

/** Returns the owner's restarts, given the next pod's template, image and configuration. */
export type RestartsOf = (newest: Newest) => Restarts

/** For an owner that never requests a restart. */
export const noRestarts: RestartsOf = () => ({
  restartAnnotations: { restart: undefined, maintenance: undefined },
  isUnsure: false,
  isGivenUp: false,
})

/**
 * The restart annotations for the template. Annotations of finished restarts remain, so that the end of a restart
 * changes no template.
 */
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
