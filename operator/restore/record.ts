import { labels, managedByEspalier, type Restore } from '../../crds/index.ts'

/**
 * Whether the operator created the Restore, for a request in its database's annotation. Only these are deleted
 * because of their age: a tool that applies a user's manifests would create a deleted Restore again.
 */
export const isOfOperator = ({ metadata }: Restore): boolean =>
  metadata.labels?.[labels.managedBy] === managedByEspalier
