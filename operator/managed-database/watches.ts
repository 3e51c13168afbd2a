/** Enqueues databases when their backups, branches or restores change. */
import { keyOf } from '../../cluster/informer/index.ts'
import type { Backup } from '../../crds/index.ts'
import { isUnrecorded } from '../backup/schedule/recorded.ts'
import type { Caches } from '../caches.ts'
import type { Enqueues } from '../owner/kind.ts'

export const follow = (caches: Caches, { enqueue, later }: Enqueues): (() => void)[] => [
  caches.backups.onChange(({ object }) => {
    for (const database of caches.databases.byIndex('source', keyOf(object))) enqueue(keyOf(database))
    // The database's suspension or deletion may wait for this backup.
    for (const database of caches.databases.byIndex('id', object.spec.databaseId))
      if (database.spec.suspended || database.metadata.deletionTimestamp !== undefined) enqueue(keyOf(database))
      else if (isReported(object) || isUnrecorded(object, database)) later(keyOf(database))
  }),
  caches.restores.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
  caches.branches.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
]

/**
 * Whether the database's status may report this backup: a finished scheduled one, or one with a verification result.
 */
const isReported = ({ spec, status }: Backup): boolean =>
  (spec.purpose === 'scheduled' && status?.finishedAt !== undefined) || status?.verificationResult !== undefined
