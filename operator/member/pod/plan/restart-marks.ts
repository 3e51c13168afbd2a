/** The restarts that an owner asks for: which, and when, is the owner's to decide. */

import type { ObservedMember } from '../../observed.ts'
import { maintenanceAnnotation, type RestartMarks, restartAnnotation } from '../stateful-set.ts'

/** What the next pod would be made from, and run with. */
export type Newest = {
  /** The digest of the template for the next restart, which the StatefulSet need not have yet; and its image. */
  newestTemplate: string | undefined
  image: string | undefined
  /** Of the files of its configuration, as Postgres tells it. */
  configurationDigest: string | undefined
}

export type Restarts = {
  /** Those to come, or had by the pod already. */
  marks: RestartMarks
  /** Of the one in the region's window it is not known whether it would bring anything: only Postgres can tell. */
  isUnsure: boolean
  /** The one that was asked for has not come about in time, and does not any more. */
  isGivenUp: boolean
}

/** Given what the next pod would be made from. */
export type RestartsOf = (newest: Newest) => Restarts

/** Of an owner that never asks for one. */
export const noRestarts: RestartsOf = () => ({
  marks: { restart: undefined, maintenance: undefined },
  isUnsure: false,
  isGivenUp: false,
})

/** What the template says: of restarts that are over it keeps what it has, so that their end changes nothing. */
export function templateMarks({ children }: ObservedMember, { marks }: Restarts): RestartMarks {
  const live = children.statefulSet?.spec?.template.metadata?.annotations
  return {
    restart: marks.restart ?? live?.[restartAnnotation],
    maintenance: marks.maintenance ?? live?.[maintenanceAnnotation],
  }
}
