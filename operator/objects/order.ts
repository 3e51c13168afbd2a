import { labels, type ObjectMeta } from '../../crds/index.ts'

/** As text, objects of one kind and namespace in the order in which they were asked for; of one second, by their ids, which rise. */
export const placeOf = ({ metadata }: { metadata: ObjectMeta }): string =>
  `${metadata.creationTimestamp} ${metadata.labels?.[labels.id]} ${metadata.name}`
