/**
 * Deduplicates equal parts of cached objects. 10,000 databases are over 100,000 objects with mostly the same text. The
 * operator's caches of them take about 152 MiB of heap with deduplication, and 302 MiB without. It costs 5 s of one
 * core at a start (`node bench/caches.ts`). No code may write to shared parts.
 */
import type { AnyObject } from '../cluster/index.ts'

/** Parts of objects that are mostly the same in all objects of a kind. */
const alike = new Set([
  ...['containers', 'initContainers', 'securityContext', 'tolerations', 'affinity', 'topologySpreadConstraints'],
  ...['ingress', 'egress', 'ports', 'policyTypes', 'ipFamilies', 'accessModes', 'resources', 'updateStrategy'],
  ...['persistentVolumeClaimRetentionPolicy', 'finalizers', 'subject', 'ipAllowlist', 'backup', 'deletion'],
])
const longestText = 4_096
/**
 * The maximum number of shared parts. A part is dropped when this many other parts have been used since its last use.
 */
const mostTexts = 50_000
const mostParts = 5_000
type Deduplicator = {
  /** Returns the object, with equal parts replaced by shared ones. Frozen parts are not changed. */
  share<T extends AnyObject>(object: T): T
}

/** The most recent values, in two generations. When the younger generation is full, the older one is dropped. */
function createTable<T>(most: number) {
  let young = new Map<string, T>()
  let old = new Map<string, T>()
  return (key: string, value: T): T => {
    const known = young.get(key)
    if (known !== undefined) return known
    const retained = old.get(key) ?? value
    if (young.size >= most / 2) {
      old = young
      young = new Map()
    }
    young.set(key, retained)
    return retained
  }
}

type Holder = Record<string, unknown>
const isHolder = (value: unknown): value is Holder => typeof value === 'object' && value !== null

/** The own property with that name, never an inherited one such as `__proto__`. A user can choose such a name. */
const ownOf = (holder: Holder, key: string): unknown => (Object.hasOwn(holder, key) ? holder[key] : undefined)

const sizeOf = (holder: Holder): number => (Array.isArray(holder) ? holder.length : Object.keys(holder).length)

/** Whether both are equal as JSON. */
function isSame(one: unknown, other: unknown): boolean {
  if (!isHolder(one) || !isHolder(other)) return one === other
  if (one === other) return true
  if (Array.isArray(one) !== Array.isArray(other) || sizeOf(one) !== sizeOf(other)) return false
  for (const key in one) if (!isSame(one[key], ownOf(other, key))) return false
  return true
}

export function createDeduplicator(): Deduplicator {
  const textOf = createTable<string>(mostTexts)
  const partOf = createTable<object>(mostParts)
  /** The last object of each kind. Most parts of the next object are equal to its parts, and need no lookup. */
  const last = new Map<string, Holder>()

  const shared = (name: string, value: unknown, isListed: boolean): unknown => {
    if (typeof value === 'string') return value.length > longestText ? value : textOf(value, value)
    if (!isHolder(value)) return value
    return !isListed && alike.has(name) ? partOf(JSON.stringify(value), value) : value
  }

  /** Replaces equal parts by those of `like`. Returns whether all are equal. */
  const shareIn = (holder: Holder, like: Holder | undefined): boolean => {
    if (holder === like) return true
    // These objects belong to the one-machine store, which shares them already.
    if (Object.isFrozen(holder)) return false
    const isList = Array.isArray(holder)
    let isAll = like !== undefined && isList === Array.isArray(like) && sizeOf(holder) === sizeOf(like)
    // A list can be indexed like a record.
    for (const key in holder) {
      const value = holder[key]
      const other = like && ownOf(like, key)
      const isComplete = isList || !alike.has(key)
      const isShared =
        isHolder(value) && isComplete ? shareIn(value, isHolder(other) ? other : undefined) : isSame(value, other)
      if (isShared) holder[key] = other
      else {
        isAll = false
        holder[key] = shared(key, value, isList)
      }
    }
    return isAll
  }

  return {
    share: object => {
      const holder = object as unknown as Holder
      shareIn(holder, last.get(object.kind))
      last.set(object.kind, holder)
      return object
    },
  }
}
