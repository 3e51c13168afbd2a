import { labels, managedByEspalier, type Restore } from '../../crds/index.ts'

/**
 * Whether the operator created it for a request of its database. A Restore of a user may be in the user's manifests,
 * and be created again from them.
 */
export const isOfOperator = ({ metadata }: Restore): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier
