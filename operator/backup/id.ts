import { annotations, type Backup, childNames, labels, uuid } from '../../crds/index.ts'
import { timeOfId } from '../../values/id.ts'
import { identified } from '../objects/finalizer.ts'

/** The API's id of a backup; undefined until it has one. */
export const idOf = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  uuid.safeParse(metadata.labels?.[labels.id]).data

/** Whether somebody has changed its id since it was completed: what it is of stands under the one that it had. */
export const isRelabelled = ({ status }: Backup, id: string): boolean =>
  status?.phase === 'completed' && status.snapshotName !== undefined && status.snapshotName !== childNames.snapshot(id)

/** An id is made just before its object is, by another clock perhaps. */
const longestMs = 3600_000

/** With all that the operator puts on a new backup. What it was when the operator first saw it stays on record. */
export function begun(backup: Backup, id: string): Backup {
  const { metadata, ...rest } = identified(backup, id)
  const first = metadata.annotations?.[annotations.firstUid] ?? metadata.uid
  if (first === undefined) return { ...rest, metadata }
  return { ...rest, metadata: { ...metadata, annotations: { ...metadata.annotations, [annotations.firstUid]: first } } }
}

/**
 * Whether it is an object out of a copy of the cluster's: it has another uid than at first. One of an earlier release, which has none on
 * record, shows by its id, which says when it was made.
 */
export function isPutBack({ metadata }: Backup, id: string | undefined): boolean {
  const first = metadata.annotations?.[annotations.firstUid]
  if (first !== undefined) return first !== metadata.uid
  const madeAt = id === undefined ? undefined : timeOfId(id)
  return madeAt !== undefined && Date.parse(metadata.creationTimestamp ?? '') - madeAt > longestMs
}
