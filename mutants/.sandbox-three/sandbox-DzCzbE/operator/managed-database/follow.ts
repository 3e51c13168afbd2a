/** Which databases are looked at again when something in the cluster changes. */
// @ts-nocheck

import type { AnyObject } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import { newlyUnreachable, routeName } from '../../routes/route.ts'
import type { Caches } from '../caches.ts'
import { type InstallationKeys, isInstallationKey } from '../keys.ts'
import { ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'

export function follow(
  caches: Caches,
  { enqueue, later, suspect }: Record<'enqueue' | 'later' | 'suspect', (key: string) => void>,
  waiting: { awaitingGateways: Iterable<string>; awaitingPort: Iterable<string> },
  keys: () => InstallationKeys,
): (() => void)[] {
  let known = keys()
  const ofIndex = (index: string, value: string) => {
    for (const database of caches.databases.byIndex(index, value)) enqueue(keyOf(database))
  }
  /** A gateway could not connect to the database that holds this port. */
  const suspectPort = (port: number) => {
    const route = caches.configMaps.get({ namespace: systemNamespace, name: routeName(port) })
    for (const database of caches.databases.byIndex('id', route?.metadata.labels?.[labels.database] ?? ''))
      suspect(keyOf(database))
  }
  const ofChild = ({ object }: { object: AnyObject }) => {
    const owner = ownerKeyOf(object)
    if (owner !== undefined && ownerKindOf(object) === 'ManagedDatabase') enqueue(owner)
    ofIndex('id', object.metadata.labels?.[labels.database] ?? '')
  }
  /** In order, so that turns go by it; and after whatever somebody waits for. */
  const all = () => {
    for (const key of caches.databases.list().map(keyOf).sort()) later(key)
  }
  return [
    caches.databases.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      // What it leaves behind, or had an id in common with, may be another's, which was put back in its place.
      const [before, after] = [previous, object].map(database => database?.metadata.labels?.[labels.id])
      if (type === 'deleted') ofIndex('id', after ?? '')
      else if (before !== undefined && before !== after) ofIndex('id', before)
    }),
    caches.statefulSets.onChange(ofChild),
    caches.pods.onChange(ofChild),
    caches.services.onChange(ofChild),
    caches.networkPolicies.onChange(ofChild),
    caches.disruptionBudgets.onChange(ofChild),
    caches.claims.onChange(ofChild),
    caches.volumes.onChange(ofChild),
    caches.secrets.onChange(ofChild),
    caches.configMaps.onChange(change => {
      ofChild(change)
      if (change.type !== 'deleted') return
      for (const key of waiting.awaitingPort) enqueue(key)
    }),
    caches.backups.onChange(({ object }) => {
      // Its suspension, or its deletion, may have waited for it.
      for (const database of caches.databases.byIndex('id', object.spec.databaseId))
        if (database.spec.suspended || database.metadata.deletionTimestamp !== undefined) enqueue(keyOf(database))
        // How the last scheduled one ended is told.
        else if (object.spec.purpose === 'scheduled' && object.status?.finishedAt !== undefined) later(keyOf(database))
    }),
    caches.branches.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'database') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
    caches.sizes.onChange(({ object }) => ofIndex('size', object.metadata.name)),
    caches.regions.onChange(({ object }) => ofIndex('region', object.metadata.name)),
    caches.gateways.onChange(({ type, object, previous }) => {
      for (const key of waiting.awaitingGateways) enqueue(key)
      if (type === 'set') for (const port of newlyUnreachable(object, previous)) suspectPort(port)
    }),
    caches.systemSecrets.onChange(({ object }) => {
      if (!isInstallationKey(object.metadata.name) || keys() === known) return
      known = keys()
      all()
    }),
  ]
}
