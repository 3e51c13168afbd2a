/**
 * Pages of a tenant's objects, ordered by creation. The objects are sorted once per change, not once per request.
 * Objects of the same millisecond are ordered by id. So the order is total, and pages neither repeat nor skip objects
 * while nothing changes.
 */

import type { Kinds } from '../cluster/index.ts'
import type { Informer } from '../cluster/informer/index.ts'
import { idOf, type OwnedKind } from './caches.ts'
import { type Created, createdAt } from './render/created-at.ts'

/** The tenant's objects that have an id, oldest first. Callers share the array and must not change it. */
type SortedView<T> = (namespace: string) => readonly T[]

/** Compares by age: an older object is first. Objects of the same time are ordered by id. */
export function compareByCreation(left: Created, right: Created): number {
  // All times have one format in UTC, so text order is time order. Most objects have different seconds.
  return (
    compareText(left.metadata.creationTimestamp ?? '', right.metadata.creationTimestamp ?? '') ||
    createdAt(left) - createdAt(right) ||
    compareText(idOf(left) ?? '', idOf(right) ?? '')
  )
}

const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

/** Subscribes to a cache. The first request after a change sorts the namespace again. */
export function createSortedView<K extends OwnedKind>(cache: Informer<K>): SortedView<Kinds[K]> {
  const sorted = new Map<string, readonly Kinds[K][]>()
  cache.onChange(change => {
    sorted.delete(change.object.metadata.namespace ?? '')
  })
  return namespace => {
    const known = sorted.get(namespace)
    if (known !== undefined) return known
    const objects = cache.list({ namespace }).filter(object => idOf(object) !== undefined)
    if (objects.length === 0) return objects
    objects.sort(compareByCreation)
    sorted.set(namespace, objects)
    return objects
  }
}

type PageQuery = { limit: number; offset: number; descending: boolean }
type Page<T> = { items: T[]; total: number }

/** Returns one page of objects that are sorted oldest first. */
export function pageOf<T>(objects: readonly T[], { limit, offset, descending }: PageQuery): Page<T> {
  const total = objects.length
  if (!descending) return { items: objects.slice(offset, offset + limit), total }
  const end = Math.max(0, total - offset)
  return { items: objects.slice(Math.max(0, end - limit), end).reverse(), total }
}

type CreatedRange = { created_after?: string | undefined; created_before?: string | undefined }

/**
 * Returns a check whether an object was created within the range, excluding its ends; undefined if the range has no
 * ends.
 */
export function createdWithin({
  created_after,
  created_before,
}: CreatedRange): ((object: Created) => boolean) | undefined {
  if (created_after === undefined && created_before === undefined) return undefined
  const after = created_after === undefined ? Number.NEGATIVE_INFINITY : Date.parse(created_after)
  const before = created_before === undefined ? Number.POSITIVE_INFINITY : Date.parse(created_before)
  return object => createdAt(object) > after && createdAt(object) < before
}

/** Returns the objects that meet all conditions. Without conditions, returns the same list. */
export function filtered<T>(objects: readonly T[], conditions: (((object: T) => boolean) | undefined)[]): readonly T[] {
  const given = conditions.filter(condition => condition !== undefined)
  return given.length === 0 ? objects : objects.filter(object => given.every(condition => condition(object)))
}

/** Returns the headers of a page: X-Total-Count, X-Applied-Limit, and Link (RFC 8288) if there is a next page. */
export function pageHeaders(url: string, { limit, offset }: PageQuery, total: number): Record<string, string> {
  const headers: Record<string, string> = { 'X-Total-Count': String(total), 'X-Applied-Limit': String(limit) }
  if (offset + limit < total) {
    const [path = '', search = ''] = url.split('?', 2)
    const query = new URLSearchParams(search)
    query.set('limit', String(limit))
    query.set('offset', String(offset + limit))
    headers.Link = `<${path}?${query}>; rel="next"`
  }
  return headers
}
