import { labels, managedByEspalier, type Restore } from '../../crds/index.ts'

/** Whether the operator made it, as its database asked for it. Somebody's own may stand in his files, and be made anew out of them. */
export const isOfOperator = ({ metadata }: Restore): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier
