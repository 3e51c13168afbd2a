import { labels, type ObjectMeta } from '../../crds/index.ts'

/**
 * A sort key for objects of one kind and namespace, by the order of their requests. Within one second, by their ids,
 * which increase.
 */
export const orderOf = ({ metadata }: { metadata: ObjectMeta }): string =>
  `${metadata.creationTimestamp} ${metadata.labels?.[labels.id]} ${metadata.name}`
