import { type Backup, labels } from '../../crds/index.ts'

/** As text, backups of one namespace in the order in which they were asked for; of one second, by their ids, which rise. */
export const placeOf = ({ metadata }: Backup): string =>
  `${metadata.creationTimestamp} ${metadata.labels?.[labels.id]} ${metadata.name}`
