/**
 * ResourceQuotas, as the API server enforces them: the store refuses a creation or growth beyond a quota of the
 * namespace. Existing objects remain and may shrink. The store counts objects of any kind (`count/<plural>.<group>`,
 * and the short names of some) and the storage that claims request, in total and per storage class. It does not count
 * CPU and memory, because the embedded installation does not limit processes. It ignores quotas with scopes, since
 * scopes are about CPU and memory.
 */
import type { KindName } from '../../cluster/kinds.ts'
import { canonicalQuantity, parseQuantity } from '../../values/quantity.ts'
import { type JsonObject, objectIn, textIn } from './json.ts'
import { keyOf, metadataOf, type ObjectReference } from './objects.ts'
import { exceededQuota } from './refusals.ts'
import type { Resource } from './resource.ts'
import type { State } from './state.ts'

export type Quotas = {
  /**
   * Counts a pending write. The caller calls the returned function after the write is on disk or has failed.
   * @throws ClusterError `Forbidden` if a quota of the namespace does not allow the write
   */
  take(resource: Resource, reference: ObjectReference, previous: JsonObject | undefined, next: JsonObject): () => void
  /** @throws like `take`, for a new object of this kind */
  require(resource: Resource, reference: ObjectReference, next: JsonObject): void
}

/** What an object uses of each quota, by quota resource name. */
type Usage = ReadonlyMap<string, number>

/** Kinds that can also be counted by their plural alone. */
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
  // A finished pod uses no resources, but still counts as an object.
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

/** A reduced request still counts while the driver may grant it. */
function storageOf(claim: JsonObject): number {
  const requested = objectIn(objectIn(objectIn(claim, 'spec'), 'resources'), 'requests').storage
  const allocated = objectIn(objectIn(claim, 'status'), 'allocatedResources').storage
  return Math.max(parseQuantity(requested) ?? 0, parseQuantity(allocated) ?? 0)
}

/** Formats an amount like the API server. */
function textOf(amount: number, inBytes: boolean): string {
  if (!Number.isSafeInteger(amount) || amount < 0) return `${amount}`
  return canonicalQuantity(inBytes && amount % 1024 === 0 ? `${amount / 1024}Ki` : `${amount}`)
}

export function createQuotas(state: State): Quotas {
  /** What objects will use after pending writes: by kind and namespace, then by the object's key. */
  const pending = new Map<string, Map<string, Usage>>()
  const bucketOf = ({ kind, namespace }: ObjectReference): string => `${kind}/${namespace}`

  /**
   * Returns the usage of all objects of the kind in the namespace. If a write of an object is pending, counts the
   * larger of the object's current and new usage.
   */
  function used(resource: Resource, { namespace }: ObjectReference, counted: string): number {
    const pendingUsage = new Map(pending.get(bucketOf({ kind: resource.kind, namespace, name: '' })))
    let sum = 0
    for (const object of state.list(resource.kind, namespace)) {
      const key = keyOf({ kind: resource.kind, namespace, name: metadataOf(object).name })
      sum += Math.max(usageOf(resource, object).get(counted) ?? 0, pendingUsage.get(key)?.get(counted) ?? 0)
      pendingUsage.delete(key)
    }
    for (const usage of pendingUsage.values()) sum += usage.get(counted) ?? 0
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
      // An update can increase the usage only if the object is a claim.
      if (previous !== undefined && resource.kind !== 'PersistentVolumeClaim') return () => {}
      const usage = check(resource, reference, previous, next)
      const bucket = bucketOf(reference)
      const usages = pending.get(bucket) ?? new Map<string, Usage>()
      pending.set(bucket, usages.set(keyOf(reference), usage))
      return () => {
        usages.delete(keyOf(reference))
        if (usages.size === 0 && pending.get(bucket) === usages) pending.delete(bucket)
      }
    },
  }
}
