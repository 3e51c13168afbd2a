/** Which restores are enqueued when something in the cluster changes. */
import { keyOf } from '../../cluster/informer/index.ts'
import { isOpenRestore, isRestoreRequested, labels, type ManagedDatabase } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { restoresOf } from '../objects/restores.ts'

/** Returns the functions that stop the watches. */
export function follow(caches: Caches, enqueue: (key: string) => void): (() => void)[] {
  const ofDatabase = (database: ManagedDatabase) => {
    for (const restore of restoresOf(caches, database))
      if (isOpenRestore(restore) || database.metadata.deletionTimestamp || restore.metadata.deletionTimestamp)
        enqueue(keyOf(restore))
  }
  const ofChild = ({ object: { metadata } }: { object: Pick<ManagedDatabase, 'metadata'> }) => {
    for (const database of caches.databases.byIndex('id', metadata.labels?.[labels.database] ?? ''))
      if (isRestoreRequested(database)) ofDatabase(database)
  }
  return [
    caches.restores.onChange(({ object }) => {
      enqueue(keyOf(object))
      // When a restore ends, the next one of the database may start.
      for (const other of caches.restores.byIndex('database', `${object.metadata.namespace}/${object.spec.databaseId}`))
        if (isOpenRestore(other)) enqueue(keyOf(other))
    }),
    caches.databases.onChange(({ object, type }) => {
      ofDatabase(object)
      if (type === 'deleted') for (const restore of restoresOf(caches, object)) enqueue(keyOf(restore))
    }),
    caches.backups.onChange(({ object }) => {
      for (const database of caches.databases.byIndex('id', object.spec.databaseId))
        if (isRestoreRequested(database)) ofDatabase(database)
    }),
    caches.claims.onChange(ofChild),
    caches.pods.onChange(ofChild),
    caches.statefulSets.onChange(ofChild),
    caches.configMaps.onChange(ofChild),
  ]
}
