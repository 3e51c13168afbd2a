/** Which backups are enqueued when something in the cluster changes. */
import type { AnyObject } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'
import { backupsOf, isUnderWay } from './observe.ts'
import { dueAtOf } from './schedule/recorded.ts'
import type { VerificationSlots } from './verification/slots.ts'

/** Returns the functions that stop the watches. */
export function follow(
  caches: Caches,
  slots: Pick<VerificationSlots, 'next'>,
  enqueue: (key: string) => void,
): (() => void)[] {
  /** The end or deletion of a backup may start the next one of the same database. */
  const ofDatabase = (namespace: string | undefined, databaseId: string) => {
    for (const backup of backupsOf(caches, namespace, databaseId)) if (isUnderWay(backup)) enqueue(keyOf(backup))
  }
  const ofDatabaseItself = ({ metadata }: ManagedDatabase) => {
    const { namespace, labels: objectLabels } = metadata
    const id = objectLabels?.[labels.id] ?? ''
    ofDatabase(namespace, id)
    // The deletion of a scheduled backup may wait until the database's status records its due time.
    for (const backup of backupsOf(caches, namespace, id))
      if (backup.metadata.deletionTimestamp !== undefined && dueAtOf(backup) !== undefined) enqueue(keyOf(backup))
  }
  return [
    caches.backups.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      const isChecked = type === 'deleted' || object.status?.verification !== 'pending'
      if (isChecked && previous?.status?.verification === 'pending') for (const next of slots.next()) enqueue(next)
      if (!isUnderWay(object)) ofDatabase(object.metadata.namespace, object.spec.databaseId)
    }),
    caches.snapshots.onChange(({ object }) => {
      const owner = ownerKindOf(object) === 'Backup' ? ownerKeyOf(object) : undefined
      if (owner !== undefined) enqueue(owner)
    }),
    ...[caches.pods, caches.claims, caches.networkPolicies].map(cache =>
      cache.onChange(({ object }: { object: Pick<AnyObject, 'metadata'> }) => {
        const owner = ownerKindOf(object) === 'Backup' ? ownerKeyOf(object) : undefined
        if (owner !== undefined) enqueue(owner)
      }),
    ),
    caches.snapshots.onServed(() => {
      for (const backup of caches.backups.list()) enqueue(keyOf(backup))
    }),
    caches.databases.onChange(({ object }) => {
      ofDatabaseItself(object)
      const { dataSource } = object.spec
      if (dataSource !== undefined) enqueue(`${object.metadata.namespace}/${dataSource.backupName}`)
    }),
    caches.branches.onChange(({ object: { metadata, spec, status } }) => {
      ofDatabase(metadata.namespace, spec.databaseId)
      const source = spec.target === undefined ? undefined : (status?.source?.backupName ?? spec.target.backupName)
      if (source !== undefined) enqueue(`${metadata.namespace}/${source}`)
    }),
    caches.restores.onChange(({ object: { metadata, spec, status } }) => {
      ofDatabase(metadata.namespace, spec.databaseId)
      enqueue(`${metadata.namespace}/${status?.recovery?.backupName ?? spec.target.backupName}`)
    }),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'backup') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
  ]
}
