import { type Backup, childNames, labels, uuid } from '../../crds/index.ts'

/** The API's id of a backup; undefined until it has one. */
export const idOf = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  uuid.safeParse(metadata.labels?.[labels.id]).data

/** Whether somebody has changed its id since it was completed: what it is of stands under the one that it had. */
export const isRelabelled = ({ status }: Backup, id: string): boolean =>
  status?.phase === 'completed' && status.snapshotName !== undefined && status.snapshotName !== childNames.snapshot(id)
