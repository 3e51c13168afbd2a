/** Restores that a database asks for by its annotation, as the API writes it. */
import type { Cluster, ObjectKey } from '../../cluster/index.ts'
import {
  apiVersion,
  askedRestore,
  isRestoreAsked,
  labels,
  type ManagedDatabase,
  managedByEspalier,
} from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { createIfAbsent } from '../objects/create.ts'

/** The key of the restore that a database asks for. */
export const askedKey = (database: ManagedDatabase): string[] => {
  const asked = isRestoreAsked(database) ? askedRestore(database) : undefined
  return asked === undefined ? [] : [`${database.metadata.namespace}/${asked.name}`]
}

/** Creates the Restore that a database asks for, if it does not exist. */
export async function recordAsked(
  caches: Caches,
  cluster: Cluster,
  { namespace = '', name }: ObjectKey,
): Promise<void> {
  const [database] = caches.databases.byIndex('restore', `${namespace}/${name}`)
  const asked = database && askedRestore(database)
  const databaseId = database?.metadata.labels?.[labels.id]
  if (database === undefined || asked === undefined || databaseId === undefined || !isRestoreAsked(database)) return
  const tenant = database.metadata.labels?.[labels.tenant]
  await createIfAbsent(cluster, 'Restore', {
    apiVersion,
    kind: 'Restore',
    metadata: {
      name,
      namespace,
      labels: {
        [labels.managedBy]: managedByEspalier,
        ...(asked.id === undefined ? {} : { [labels.id]: asked.id }),
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
    },
    spec: {
      databaseName: database.metadata.name,
      databaseId,
      target: { backupName: asked.backupName },
      ...(asked.discardPrevious ? { discardPrevious: true } : {}),
    },
  })
}
