/**
 * ResourceQuotas, as the API server enforces them: what would be more than a quota of its namespace allows is not made, and
 * does not grow; what is there already stays, and may become less. Counted are objects of any kind
 * (`count/<plural>.<group>`, and the short names that some have) and the storage that claims ask for, in all and of each
 * storage class. CPU and memory are not: nothing here limits a process. Nor is a quota with scopes, which are about those.
 */
// @ts-nocheck

import type { KindName } from '../../cluster/kinds.ts'
import { canonicalQuantity, parseQuantity } from '../../values/quantity.ts'
import { type JsonObject, objectIn, textIn } from './json.ts'
import { metadataOf, type ObjectReference, placeOf } from './objects.ts'
import { exceededQuota } from './refusals.ts'
import type { Resource } from './resource.ts'
import type { State } from './state.ts'

export type Quotas = {
  /**
   * Counts a write until the returned function is called: by then it is on disk, or has failed.
   * @throws ClusterError `Forbidden` where a quota of its namespace does not allow it
   */
  take(resource: Resource, reference: ObjectReference, previous: JsonObject | undefined, next: JsonObject): () => void
  /** @throws as `take` does, where an object of this kind was made */
  require(resource: Resource, reference: ObjectReference, next: JsonObject): void
}

/** What objects take of each quota, by its name there. */
type Usage = ReadonlyMap<string, number>

/** Kinds that a quota counts by their plural alone as well. */
const shortNames: ReadonlySet<KindName> = new Set([
  'ConfigMap',
  'PersistentVolumeClaim',
  'Pod',
  'ResourceQuota',
  'Secret',
  'Service',
])

const storageRequest = 'requests.storage'

function usageOf(resource: Resource, object: JsonObject): Usage {
  const { kind, info, qualifiedPlural } = resource
  const counted: [string, number][] = [[`count/${qualifiedPlural}`, 1]]
  // A pod that has ended holds nothing any more; the object is there all the same.
  const hasEnded = kind === 'Pod' && ['Succeeded', 'Failed'].includes(textIn(objectIn(object, 'status'), 'phase') ?? '')
  if (shortNames.has(kind) && !hasEnded) counted.push([info.plural, 1])
  if (kind !== 'PersistentVolumeClaim') return new Map(counted)
  const storage = storageOf(object)
  counted.push([storageRequest, storage])
  const storageClass = textIn(objectIn(object, 'spec'), 'storageClassName')
  if (storageClass) {
    const ofClass = `${storageClass}.storageclass.storage.k8s.io`
    counted.push([`${ofClass}/${storageRequest}`, storage], [`${ofClass}/${info.plural}`, 1])
  }
  return new Map(counted)
}

/** A request that was taken back counts as long as the driver may still grant it. */
function storageOf(claim: JsonObject): number {
  const asked = objectIn(objectIn(objectIn(claim, 'spec'), 'resources'), 'requests').storage
  const allocated = objectIn(objectIn(claim, 'status'), 'allocatedResources').storage
  return Math.max(parseQuantity(asked) ?? 0, parseQuantity(allocated) ?? 0)
}

/** An amount as the API server writes it. */
function textOf(amount: number, inBytes: boolean): string {
  if (!Number.isSafeInteger(amount) || amount < 0) return `${amount}`
  return canonicalQuantity(inBytes && amount % 1024 === 0 ? `${amount / 1024}Ki` : `${amount}`)
}

export function createQuotas(state: State): Quotas {
  /** What objects on their way will take, by kind and namespace, and by their place. */
  const underway = new Map<string, Map<string, Usage>>()
  const bucketOf = ({ kind, namespace }: ObjectReference): string => `${kind}/${namespace}`

  /** What all objects of the kind take in the namespace; of one on its way the larger of what it takes and will. */
  function used(resource: Resource, { namespace }: ObjectReference, counted: string): number {
    const coming = new Map(underway.get(bucketOf({ kind: resource.kind, namespace, name: '' })))
    let sum = 0
    for (const object of state.list(resource.kind, namespace)) {
      const place = placeOf({ kind: resource.kind, namespace, name: metadataOf(object).name })
      sum += Math.max(usageOf(resource, object).get(counted) ?? 0, coming.get(place)?.get(counted) ?? 0)
      coming.delete(place)
    }
    for (const usage of coming.values()) sum += usage.get(counted) ?? 0
    return sum
  }

  function check(
    resource: Resource,
    reference: ObjectReference,
    previous: JsonObject | undefined,
    next: JsonObject,
  ): Usage {
    const usage = usageOf(resource, next)
    if (reference.namespace === '') return usage
    const before = previous === undefined ? undefined : usageOf(resource, previous)
    for (const quota of state.list('ResourceQuota', reference.namespace)) {
      const spec = objectIn(quota, 'spec')
      if (spec.scopes !== undefined || spec.scopeSelector !== undefined) continue
      const exceeded = [...usage].flatMap(([counted, takes]) => {
        const limit = parseQuantity(objectIn(spec, 'hard')[counted])
        const requested = takes - (before?.get(counted) ?? 0)
        if (limit === undefined || requested <= 0) return []
        const present = used(resource, reference, counted)
        return present + requested > limit ? [{ counted, requested, used: present, limit }] : []
      })
      if (exceeded.length === 0) continue
      const texts = exceeded
        .toSorted((one, other) => (one.counted < other.counted ? -1 : 1))
        .map(({ counted, ...amounts }) => {
          const text = (amount: number) => `${counted}=${textOf(amount, counted.endsWith(storageRequest))}`
          return { requested: text(amounts.requested), used: text(amounts.used), limit: text(amounts.limit) }
        })
      throw exceededQuota(resource, reference.name, metadataOf(quota).name, texts)
    }
    return usage
  }

  return {
    require: (resource, reference, next) => void check(resource, reference, undefined, next),
    take: (resource, reference, previous, next) => {
      // Of anything else an update takes what it took.
      if (previous !== undefined && resource.kind !== 'PersistentVolumeClaim') return () => {}
      const usage = check(resource, reference, previous, next)
      const bucket = bucketOf(reference)
      const places = underway.get(bucket) ?? new Map<string, Usage>()
      underway.set(bucket, places.set(placeOf(reference), usage))
      return () => {
        places.delete(placeOf(reference))
        if (places.size === 0 && underway.get(bucket) === places) underway.delete(bucket)
      }
    },
  }
}
