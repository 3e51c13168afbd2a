/**
 * The time at which an object was created. The cluster stores only whole seconds. The milliseconds come from a
 * generated id, or from an annotation if the id was derived from something else. Together, they also order objects of
 * the same second. An id of an earlier version has no time and counts as the start of its second. An id with another
 * time (a restored object, a later label, clock skew) counts as the nearer end of the cluster's second.
 */
import { annotations, labels } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'

export type Created = {
  metadata: { creationTimestamp?: string; labels?: Record<string, string>; annotations?: Record<string, string> }
}

const lastOfSecondMs = 999

/** Returns milliseconds since the epoch; 0 if unknown. */
export function createdAt({ metadata }: Created): number {
  const second = Date.parse(metadata.creationTimestamp ?? '') || 0
  const recordedMs =
    timeOfId(metadata.labels?.[labels.id] ?? '') ??
    (Date.parse(metadata.annotations?.[annotations.createdAt] ?? '') || second)
  return Math.min(Math.max(recordedMs, second), second + lastOfSecondMs)
}

/** The time as clients see it. */
export const createdTime = (object: Created): string =>
  object.metadata.creationTimestamp === undefined ? '' : new Date(createdAt(object)).toISOString()
