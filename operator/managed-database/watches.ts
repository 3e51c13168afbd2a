/** Which databases are enqueued by changes of objects that concern no other owner. */
import { keyOf } from '../../cluster/informer/index.ts'
import type { Backup } from '../../crds/index.ts'
import { isUnrecorded } from '../backup/schedule/recorded.ts'
import type { Caches } from '../caches.ts'
import type { Enqueues } from '../owner/kind.ts'

export const follow = (caches: Caches, { enqueue, later }: Enqueues): (() => void)[] => [
  caches.backups.onChange(({ object }) => {
    for (const database of caches.databases.byIndex('source', keyOf(object))) enqueue(keyOf(database))
    // Its suspension or deletion may have waited for the backup.
    for (const database of caches.databases.byIndex('id', object.spec.databaseId))
      if (database.spec.suspended || database.metadata.deletionTimestamp !== undefined) enqueue(keyOf(database))
      else if (isReported(object) || isUnrecorded(object, database)) later(keyOf(database))
  }),
  caches.restores.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
  caches.branches.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
]

/**
 * Whether the database's status reports the result of the backup: the last scheduled one, and the last verified one.
 */
const isReported = ({ spec, status }: Backup): boolean =>
  (spec.purpose === 'scheduled' && status?.finishedAt !== undefined) || status?.verificationResult !== undefined
