/** The restores of a database, read from an index. */
import { labels, type ManagedDatabase, type Restore } from '../../crds/index.ts'

type Restores = { byIndex(name: 'database', value: string): readonly Restore[] }

export const restoresOf = ({ restores }: { restores: Restores }, { metadata }: ManagedDatabase): Restore[] =>
  restores
    .byIndex('database', `${metadata.namespace}/${metadata.labels?.[labels.id]}`)
    .filter(({ spec }) => spec.databaseName === metadata.name)
