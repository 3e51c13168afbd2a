import { annotations, type Backup, childNames, labels, uuid } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { identified } from '../objects/finalizer.ts'

/** The API's id of a backup; undefined until it has one. */
export const idOf = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  uuid.safeParse(metadata.labels?.[labels.id]).data

/** Whether the id label was changed after the backup completed. The snapshot's name contains the previous id. */
export const isRelabelled = ({ status }: Backup, id: string): boolean =>
  status?.phase === 'completed' && status.snapshotName !== undefined && status.snapshotName !== childNames.snapshot(id)

/** The largest accepted difference between the time in an id and its object's creation: their clocks may differ. */
const longestMs = 3600_000

/**
 * Adds the operator's finalizer, labels and annotations to a new backup, including the uid that the operator first saw.
 */
export function identifiedBackup(backup: Backup, id: string): Backup {
  const { metadata, ...rest } = identified(backup, id)
  const first = metadata.annotations?.[annotations.firstUid] ?? metadata.uid
  if (first === undefined) return { ...rest, metadata }
  return { ...rest, metadata: { ...metadata, annotations: { ...metadata.annotations, [annotations.firstUid]: first } } }
}

/**
 * Whether the object was recreated, for example from a manifest or a backup of the cluster: its uid differs from the
 * recorded first uid. A backup of an earlier release has no recorded uid, but its id contains its creation time.
 */
export function isRecreated({ metadata }: Backup, id: string | undefined): boolean {
  const first = metadata.annotations?.[annotations.firstUid]
  if (first !== undefined) return first !== metadata.uid
  const madeAt = id === undefined ? undefined : timeOfId(id)
  return madeAt !== undefined && Date.parse(metadata.creationTimestamp ?? '') - madeAt > longestMs
}
