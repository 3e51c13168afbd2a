/** Which databases are looked at again when something in the cluster changes. */
import { keyOf } from '../../cluster/informer/index.ts'
import { type Backup, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { followInstances, type Hear } from '../owner/follow.ts'

export function follow(
  caches: Caches,
  hear: Hear,
  waiting: { awaitingGateways: Iterable<string>; awaitingPort: Iterable<string> },
  keys: () => InstallationKeys,
): (() => void)[] {
  const { enqueue, later } = hear
  const ofId = (id: string) => {
    for (const database of caches.databases.byIndex('id', id)) enqueue(keyOf(database))
  }
  return [
    caches.databases.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      // What it leaves behind, or had an id in common with, may be another's, which was put back in its place.
      const [before, after] = [previous, object].map(database => database?.metadata.labels?.[labels.id])
      if (type === 'deleted') ofId(after ?? '')
      else if (before !== undefined && before !== after) ofId(before)
    }),
    ...followInstances(caches, { kind: 'ManagedDatabase', owners: caches.databases }, hear, waiting, keys),
    caches.backups.onChange(({ object }) => {
      for (const database of caches.databases.byIndex('source', keyOf(object))) enqueue(keyOf(database))
      // Its suspension, or its deletion, may have waited for it.
      for (const database of caches.databases.byIndex('id', object.spec.databaseId))
        if (database.spec.suspended || database.metadata.deletionTimestamp !== undefined) enqueue(keyOf(database))
        // How the last scheduled one ended is told, and what the last check of one came to.
        else if (isTold(object)) later(keyOf(database))
    }),
    caches.restores.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.branches.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'database') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
  ]
}

const isTold = ({ spec, status }: Backup): boolean =>
  (spec.purpose === 'scheduled' && status?.finishedAt !== undefined) || status?.verificationResult !== undefined
