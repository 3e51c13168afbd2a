/**
 * When an object was created. The cluster tells it in whole seconds; an id that was minted then tells the millisecond, or
 * an annotation where the id was derived from something else. By
 * both together objects have an order, also those of one second. An id without a time, as earlier versions minted
 * them, stands at the beginning of its second, and one of another time (of an object that was put back, or labelled later,
 * or under another clock) at its nearer end: never out of the second in which the cluster says that it was created.
 */
import { annotations, labels } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'

export type Created = {
  metadata: { creationTimestamp?: string; labels?: Record<string, string>; annotations?: Record<string, string> }
}

const lastOfSecondMs = 999

/** In ms since the epoch; 0 where nothing tells. */
export function createdAt({ metadata }: Created): number {
  const second = Date.parse(metadata.creationTimestamp ?? '') || 0
  const told =
    timeOfId(metadata.labels?.[labels.id] ?? '') ??
    (Date.parse(metadata.annotations?.[annotations.createdAt] ?? '') || second)
  return Math.min(Math.max(told, second), second + lastOfSecondMs)
}

/** As a client sees it. */
export const createdTime = (object: Created): string =>
  object.metadata.creationTimestamp === undefined ? '' : new Date(createdAt(object)).toISOString()
