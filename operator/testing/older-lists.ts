/** The content of caches that have not received the last changes: lists of every watched kind, returned again later. */
import type { AnyObject, Cluster, KindName, Kinds, ListOptions, ListResult } from '../../cluster/index.ts'

const followed: KindName[] = [
  'ManagedDatabase',
  'Branch',
  'Backup',
  'Restore',
  'Task',
  'StatefulSet',
  'Deployment',
  'Pod',
  'Service',
  'NetworkPolicy',
  'PodDisruptionBudget',
  'PersistentVolumeClaim',
  'PersistentVolume',
  'VolumeSnapshot',
  'Secret',
  'ConfigMap',
]

const isSelected = (object: AnyObject, { namespace, labels = {}, open }: ListOptions): boolean => {
  const { metadata } = object
  if (namespace !== undefined && metadata.namespace !== namespace) return false
  if (open && object.kind === 'Task' && object.status?.finishedAt !== undefined) return false
  return Object.entries(labels).every(([name, value]) =>
    value === true ? metadata.labels?.[name] !== undefined : metadata.labels?.[name] === value,
  )
}

/**
 * Remembers the current cluster; returns the same cluster, whose paged lists (those of caches) are answered as of now.
 */
export async function rememberLists(now: Cluster): Promise<(inner: Cluster) => Cluster> {
  const lists = new Map<KindName, ListResult<AnyObject>>()
  await Promise.all(followed.map(async kind => lists.set(kind, (await now.list(kind)) as ListResult<AnyObject>)))
  return inner => ({
    ...inner,
    list: async <K extends KindName>(kind: K, options: ListOptions = {}) => {
      const known = lists.get(kind)
      if (known === undefined || options.limit === undefined) return inner.list(kind, options)
      // What is remembered under a kind is of that kind.
      const items = known.items.filter(object => isSelected(object, options)) as Kinds[K][]
      return { items, resourceVersion: known.resourceVersion }
    },
  })
}
