/**
 * Enqueues a branch when its prebranch backup changes. Also enqueues a branch when a database with the name in
 * `spec.databaseName`, but with another id, appears or disappears.
 */
import { keyOf } from '../../cluster/informer/index.ts'
import { type Backup, childNames, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { onOtherDatabase } from '../objects/named-database.ts'
import type { Enqueues } from '../owner/kind.ts'

export function follow(caches: Caches, { enqueue }: Enqueues): (() => void)[] {
  /** Enqueues the branch for which the backup was taken. */
  const ofBackup = ({ metadata, spec }: Backup) => {
    if (spec.purpose !== 'prebranch') return
    for (const branch of caches.branches.byIndex('database', `${metadata.namespace}/${spec.databaseName}`))
      if (childNames.prebranch(branch.metadata.labels?.[labels.id] ?? '') === metadata.name) enqueue(keyOf(branch))
  }
  return [
    caches.backups.onChange(({ object }) => ofBackup(object)),
    onOtherDatabase(caches.databases, key => caches.branches.byIndex('database', key), enqueue),
  ]
}
