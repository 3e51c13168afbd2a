/** Which branches are looked at again when something in the cluster changes. */
import { keyOf } from '../../cluster/informer/index.ts'
import { type Backup, childNames, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { followInstances, type Hear } from '../owner/follow.ts'

export function follow(
  caches: Caches,
  hear: Hear,
  waiting: { awaitingGateways: Iterable<string>; awaitingPort: Iterable<string> },
  keys: () => InstallationKeys,
): (() => void)[] {
  const { enqueue } = hear
  /** The branch that a Backup is made for. */
  const ofBackup = ({ metadata, spec }: Backup) => {
    if (spec.purpose !== 'prebranch') return
    for (const branch of caches.branches.byIndex('database', `${metadata.namespace}/${spec.databaseName}`))
      if (childNames.prebranch(branch.metadata.labels?.[labels.id] ?? '') === metadata.name) enqueue(keyOf(branch))
  }
  return [
    caches.branches.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      // What it leaves behind, or had an id in common with, may be another's, which was put back in its place.
      const [before, after] = [previous, object].map(branch => branch?.metadata.labels?.[labels.id])
      const left = type === 'deleted' ? after : before === after ? undefined : before
      for (const other of caches.branches.byIndex('id', left ?? '')) enqueue(keyOf(other))
    }),
    ...followInstances(caches, { kind: 'Branch', owners: caches.branches }, hear, waiting, keys),
    caches.backups.onChange(({ object }) => ofBackup(object)),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'branch') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
  ]
}
