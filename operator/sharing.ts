/**
 * One copy of what objects have in common. Ten thousand databases are a hundred thousand objects, most of whose text is the same
 * in all of them. What is shared must not be written to.
 */
import type { AnyObject } from '../cluster/index.ts'

/** Parts of objects that are mostly the same in all of a kind. */
const alike = new Set([
  ...['containers', 'initContainers', 'securityContext', 'tolerations', 'affinity', 'topologySpreadConstraints'],
  ...['ingress', 'egress', 'ports', 'policyTypes', 'ipFamilies', 'accessModes', 'resources', 'updateStrategy'],
  ...['persistentVolumeClaimRetentionPolicy', 'finalizers', 'subject', 'ipAllowlist', 'backup', 'deletion'],
])
const longestText = 4_096
/** What is kept in common, at most; what has not been met for as long as that many others is forgotten. */
const mostTexts = 50_000
const mostParts = 5_000
/** Of one place: names can be of anybody's choosing, as those of labels are. */
const mostNames = 200
/** A place whose first so many values were hardly ever met again has one of its own in each object: it is looked up no more. */
const trial = 1_000
const worthwhile = 0.3

type Sharing = {
  /** The same object, what it has in common with others replaced by theirs. What is frozen stays as it is. */
  share<T extends AnyObject>(object: T): T
}

/** Where values stand in objects of a kind: the names on the way there. All members of a list stand in one place. */
type Place = {
  within: Map<string, Place>
  isAlike: boolean
  /** Values from here that were looked for, and those that were known. */
  sought: number
  found: number
  /** Values first met here, and how often those were met again anywhere. */
  added: number
  met: number
}

/** What was met, and where first. */
type Known<T> = { value: T; place: Place }

const newPlace = (isAlike = false): Place => ({
  within: new Map(),
  isAlike,
  sought: 0,
  found: 0,
  added: 0,
  met: 0,
})

const isRare = (part: number, whole: number): boolean => whole >= trial && part < worthwhile * whole
const isInVain = ({ sought, found, added, met }: Place): boolean => isRare(found, sought) && isRare(met, added)

function placeIn(place: Place, name: string): Place {
  let inner = place.within.get(name)
  if (inner !== undefined || place.within.size >= mostNames) return inner ?? place
  inner = newPlace(alike.has(name))
  place.within.set(name, inner)
  return inner
}

/** The values that were met last, in two generations: the older one goes when the younger is full. */
function createTable<T>(most: number) {
  let young = new Map<string, Known<T>>()
  let old = new Map<string, Known<T>>()
  const add = (key: string, known: Known<T>) => {
    if (young.size >= most / 2) {
      old = young
      young = new Map()
    }
    young.set(key, known)
  }
  return (key: string, value: T, place: Place): T => {
    place.sought++
    let known = young.get(key)
    if (known === undefined) {
      known = old.get(key)
      if (known !== undefined) add(key, known)
    }
    if (known !== undefined) {
      place.found++
      known.place.met++
      return known.value
    }
    if (isRare(place.met, place.added)) return value
    place.added++
    add(key, { value, place })
    return value
  }
}

type Holder = Record<string, unknown>
const isHolder = (value: unknown): value is Holder => typeof value === 'object' && value !== null

/** What is in it by that name: not what all objects inherit, `__proto__` among it, which a name of anybody's choosing can be. */
const ownOf = (holder: Holder, key: string): unknown => (Object.hasOwn(holder, key) ? holder[key] : undefined)

const sizeOf = (holder: Holder): number => (Array.isArray(holder) ? holder.length : Object.keys(holder).length)

/** Whether both say the same, as far as JSON goes. */
function isSame(one: unknown, other: unknown): boolean {
  if (!isHolder(one) || !isHolder(other)) return one === other
  if (one === other) return true
  if (Array.isArray(one) !== Array.isArray(other) || sizeOf(one) !== sizeOf(other)) return false
  for (const key in one) if (!isSame(one[key], ownOf(other, key))) return false
  return true
}

export function createSharing(): Sharing {
  const ofKinds = newPlace()
  const textOf = createTable<string>(mostTexts)
  const partOf = createTable<object>(mostParts)
  /** The last one of each kind: most of the next one is as it was there, and is found without looking it up. */
  const last = new Map<string, Holder>()

  /** Takes from `like` what is the same there. Whether all of it is. */
  const shareIn = (holder: Holder, like: Holder | undefined, place: Place): boolean => {
    if (holder === like) return true
    // The one-machine store's own, which are shared already.
    if (Object.isFrozen(holder)) return false
    const isList = Array.isArray(holder)
    let isAll = like !== undefined && isList === Array.isArray(like) && sizeOf(holder) === sizeOf(like)
    // A list can be written to by its places as a record by its names.
    for (const key in holder) {
      const value = holder[key]
      const other = like && ownOf(like, key)
      if (isHolder(value)) {
        const inner = isList ? place : placeIn(place, key)
        if (!inner.isAlike || isList) {
          if (shareIn(value, isHolder(other) ? other : undefined, inner)) holder[key] = other
          else isAll = false
        } else if (isSame(value, other)) holder[key] = other
        else {
          isAll = false
          if (!isInVain(inner)) holder[key] = partOf(JSON.stringify(value), value, inner)
        }
      } else if (value === other) {
        if (typeof value === 'string') holder[key] = other
      } else {
        isAll = false
        if (typeof value !== 'string' || value.length > longestText) continue
        const inner = isList ? place : placeIn(place, key)
        if (!isInVain(inner)) holder[key] = textOf(value, value, inner)
      }
    }
    return isAll
  }

  return {
    share: object => {
      const holder = object as unknown as Holder
      shareIn(holder, last.get(object.kind), placeIn(ofKinds, object.kind))
      last.set(object.kind, holder)
      return object
    },
  }
}
