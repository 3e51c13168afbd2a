/**
 * Simulates caches that have not received the last changes: stores lists of every watched kind, and returns them again
 * later.
 */
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
 * Stores the lists of the current cluster. Returns a function: the cluster that it returns answers paged lists (as
 * caches request them) with the stored ones.
 */
export async function rememberLists(now: Cluster): Promise<(inner: Cluster) => Cluster> {
  const lists = new Map<KindName, ListResult<AnyObject>>()
  await Promise.all(followed.map(async kind => lists.set(kind, (await now.list(kind)) as ListResult<AnyObject>)))
  return inner => ({
    ...inner,
    list: async <K extends KindName>(kind: K, options: ListOptions = {}) => {
      const known = lists.get(kind)
      if (known === undefined || options.limit === undefined) return inner.list(kind, options)
      // The lists stored under a kind have objects of that kind.
      const items = known.items.filter(object => isSelected(object, options)) as Kinds[K][]
      return { items, resourceVersion: known.resourceVersion }
    },
  })
}
