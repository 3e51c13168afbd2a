/**
 * ResourceQuotas, of which the store enforces counts of objects (`count/<plural>.<group>`), as the API server does: an
 * object that would be one too many is not made, and what is there already stays.
 */
import type { KindName } from '../../cluster/kinds.ts'
import { parseQuantity } from '../../values/quantity.ts'
import { objectIn } from './json.ts'
import { metadataOf, type ObjectReference } from './objects.ts'
import { exceededQuota } from './refusals.ts'
import type { Resource } from './resource.ts'
import type { State } from './state.ts'

export type Quotas = {
  /** @throws ClusterError `Forbidden` where a quota of its namespace allows no further object of the kind */
  require(resource: Resource, reference: ObjectReference): void
  /** Counts an object that is on its way to the disk, until the returned function is called. */
  reserve(reference: ObjectReference): () => void
}

export function createQuotas(state: State): Quotas {
  /** Names of objects on their way, by kind and namespace. */
  const underway = new Map<string, Set<string>>()
  const bucketOf = ({ kind, namespace }: ObjectReference): string => `${kind}/${namespace}`

  function used(kind: KindName, reference: ObjectReference): number {
    const coming = [...(underway.get(bucketOf(reference)) ?? [])]
    return (
      state.list(kind, reference.namespace).length +
      coming.filter(name => state.get({ ...reference, name }) === undefined).length
    )
  }

  return {
    require: (resource, reference) => {
      if (reference.namespace === '') return
      const counted = `count/${resource.qualifiedPlural}`
      for (const quota of state.list('ResourceQuota', reference.namespace)) {
        const limit = parseQuantity(objectIn(objectIn(quota, 'spec'), 'hard')[counted])
        if (limit === undefined) continue
        const present = used(resource.kind, reference)
        if (present < limit) continue
        const { name } = metadataOf(quota)
        throw exceededQuota(resource, reference.name, { quota: name, counted, used: present, limit })
      }
    },
    reserve: reference => {
      const bucket = bucketOf(reference)
      const names = underway.get(bucket) ?? new Set()
      underway.set(bucket, names.add(reference.name))
      return () => {
        names.delete(reference.name)
        if (names.size === 0 && underway.get(bucket) === names) underway.delete(bucket)
      }
    },
  }
}
