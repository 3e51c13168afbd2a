/**
 * The writes that a store accepts while its disk is full: mainly those that free space. Half of the reserve is only for
 * deletions and the writes that they need.
 */
import type { KindName } from '../../cluster/kinds.ts'
import type { Pressure } from './disk.ts'
import type { JsonObject } from './json.ts'
import { metadataOf } from './objects.ts'

type Write = {
  kind: KindName
  /** The current object; undefined if the write creates it. */
  current: JsonObject | undefined
  object: JsonObject
  isDeleted: boolean
}

/** Kinds whose new objects need space for data, and Events, which no component waits for. */
const takesSpace = new Set<KindName>([
  'ManagedDatabase',
  'Branch',
  'Backup',
  'Restore',
  'PersistentVolumeClaim',
  'VolumeSnapshot',
  'Event',
])

/** Kinds that the operator also writes during a deletion. */
const servesDeletion = new Set<KindName>(['Task', 'Namespace'])

/** Whether a write is accepted. Pure. */
export function isAccepted(pressure: Pressure, { kind, current, object, isDeleted }: Write): boolean {
  if (pressure === 'none' || isDeleted || metadataOf(object).deletionTimestamp !== undefined) return true
  if (servesDeletion.has(kind)) return true
  if (current === undefined && takesSpace.has(kind)) return false
  return pressure === 'reserve' && kind !== 'Event'
}
