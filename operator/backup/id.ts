import { annotations, type Backup, childNames, labels, uuid } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { identified } from '../objects/finalizer.ts'

/** The API's id of a backup; undefined until it has one. */
export const idOf = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  uuid.safeParse(metadata.labels?.[labels.id]).data

/** Whether its id was changed since it was completed: its snapshot has a name with the previous id. */
export const isRelabelled = ({ status }: Backup, id: string): boolean =>
  status?.phase === 'completed' && status.snapshotName !== undefined && status.snapshotName !== childNames.snapshot(id)

/** An id is created just before its object, possibly by another clock. */
const longestMs = 3600_000

/**
 * Adds the operator's finalizer, labels and annotations to a new backup, including the uid that the operator first saw.
 */
export function begun(backup: Backup, id: string): Backup {
  const { metadata, ...rest } = identified(backup, id)
  const first = metadata.annotations?.[annotations.firstUid] ?? metadata.uid
  if (first === undefined) return { ...rest, metadata }
  return { ...rest, metadata: { ...metadata, annotations: { ...metadata.annotations, [annotations.firstUid]: first } } }
}

/**
 * Whether the object was recreated from a copy of the cluster's objects: its uid is not the first one. A backup of an
 * earlier release has no recorded uid; its id shows when it was created.
 */
export function isPutBack({ metadata }: Backup, id: string | undefined): boolean {
  const first = metadata.annotations?.[annotations.firstUid]
  if (first !== undefined) return first !== metadata.uid
  const madeAt = id === undefined ? undefined : timeOfId(id)
  return madeAt !== undefined && Date.parse(metadata.creationTimestamp ?? '') - madeAt > longestMs
}
