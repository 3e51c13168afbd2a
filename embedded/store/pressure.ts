/**
 * Which writes a store takes while its disk is full: what leads to free space, above all. Half of the reserve is for
 * deletions alone, so that nothing else can use it up.
 */
import type { KindName } from '../../cluster/kinds.ts'
import type { Pressure } from './disk.ts'
import type { JsonObject } from './json.ts'
import { metadataOf } from './objects.ts'

type Write = {
  kind: KindName
  /** What is there; undefined where the write creates it. */
  current: JsonObject | undefined
  object: JsonObject
  gone: boolean
}

/** Objects whose creation takes space for data, and Events, which nothing waits for. */
const takesSpace = new Set<KindName>([
  'ManagedDatabase',
  'Branch',
  'Backup',
  'Restore',
  'PersistentVolumeClaim',
  'VolumeSnapshot',
  'Event',
])

/** Kinds that a deletion writes beside the object that is deleted. */
const servesDeletion = new Set<KindName>(['Task', 'Namespace'])

/** Whether a write is taken. Pure. */
export function isTaken(pressure: Pressure, { kind, current, object, gone }: Write): boolean {
  if (pressure === 'none' || gone || metadataOf(object).deletionTimestamp !== undefined) return true
  if (servesDeletion.has(kind)) return true
  if (current === undefined && takesSpace.has(kind)) return false
  return pressure === 'reserve' && kind !== 'Event'
}
