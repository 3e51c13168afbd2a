import { type Backup, labels, uuid } from '../../crds/index.ts'

/** The API's id of a backup; undefined until it has one. */
export const idOf = ({ metadata }: Pick<Backup, 'metadata'>): string | undefined =>
  uuid.safeParse(metadata.labels?.[labels.id]).data
