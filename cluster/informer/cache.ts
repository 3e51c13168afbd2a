/**
 * The cached objects of one kind, with indexes. It accepts lists, watch events and this process's own writes in any
 * order, and reports the changes that each of them caused. It does no I/O and has no clock.
 *
 * It relies on one fact: resourceVersions of a kind are ordered, and `progress` is the version up to which every change
 * is in the cache. So an object that this process wrote at or below `progress` is either in the cache or deleted. An
 * object above `progress` is newer, and no older event or list may undo it.
 */
import type { ObjectMeta } from '../../crds/index.ts'
import type { ObjectKey, WatchEvent } from '../port.ts'
import { compareVersions } from './version.ts'

export type Cacheable = { metadata: ObjectMeta }

/** `previous` is the previously cached object. A deletion has the last known state. */
export type Change<T> = { type: 'set' | 'deleted'; object: T; previous?: T }

export type IndexFunctions<T> = Record<string, (object: T) => readonly string[]>

/** Most values have one object. A set for each value would use more memory than many of the objects. */
type Index<T> = { valuesOf: (object: T) => readonly string[]; entries: Map<string, T | Set<T>> }

export class ObjectCache<T extends Cacheable> {
  readonly #namespaces = new Map<string, Map<string, T>>()
  readonly #indexes = new Map<string, Index<T>>()
  #progress: string | undefined
  #size = 0

  constructor(indexes: IndexFunctions<T> = {}) {
    for (const [name, valuesOf] of Object.entries(indexes)) this.#indexes.set(name, { valuesOf, entries: new Map() })
  }

  get size(): number {
    return this.#size
  }

  get(key: ObjectKey): T | undefined {
    return this.#namespaces.get(key.namespace ?? '')?.get(key.name)
  }

  /** All objects, or those of one namespace, in no particular order. */
  list(filter: { namespace?: string | undefined } = {}): T[] {
    if (filter.namespace !== undefined) return [...(this.#namespaces.get(filter.namespace)?.values() ?? [])]
    const result: T[] = []
    for (const objects of this.#namespaces.values()) for (const object of objects.values()) result.push(object)
    return result
  }

  /** The objects for which the index function returned this value. Throws for an index that was not declared. */
  byIndex(name: string, value: string): T[] {
    const index = this.#indexes.get(name)
    if (!index) throw new Error(`there is no index "${name}"`)
    const entry = index.entries.get(value)
    if (entry === undefined) return []
    return entry instanceof Set ? [...entry] : [entry]
  }

  /** Applies one watch event. An event that is older than the cached object changes nothing. */
  observe(event: WatchEvent<T>): Change<T>[] {
    if (event.type === 'BOOKMARK') {
      this.#progress = event.resourceVersion
      return []
    }
    const { object } = event
    this.#progress = object.metadata.resourceVersion
    const cached = this.get(object.metadata)
    const order = cached ? compareVersions(object.metadata.resourceVersion, cached.metadata.resourceVersion) : 1
    if (event.type === 'DELETED') return cached && order >= 0 ? [this.#remove(cached, object)] : []
    return order > 0 ? [this.#put(object)] : []
  }

  /**
   * Applies a complete list as of `version`. Objects that are missing in it were deleted in the meantime. This
   * process's own writes that are newer than the list are kept. If a list is older than `progress`, the server itself
   * was restored from a backup: then the list replaces everything.
   */
  replaceAll(items: readonly T[], version: string): Change<T>[] {
    const wentBack = compareVersions(version, this.#progress) < 0
    const changes: Change<T>[] = []
    const listed = new Set<T>()
    for (const object of items) {
      const cached = this.get(object.metadata)
      const order = cached ? compareVersions(object.metadata.resourceVersion, cached.metadata.resourceVersion) : 1
      const take = wentBack ? order !== 0 || cached?.metadata.uid !== object.metadata.uid : order > 0
      if (take) changes.push(this.#put(object))
      listed.add(this.get(object.metadata) ?? object)
    }
    for (const cached of this.list()) {
      if (listed.has(cached)) continue
      if (!wentBack && compareVersions(cached.metadata.resourceVersion, version) > 0) continue
      changes.push(this.#remove(cached, cached))
    }
    this.#progress = version
    return changes
  }

  /** Adds the result of this process's own write, unless the cache already has this version or a newer one. */
  writeThrough(object: T): Change<T>[] {
    const version = object.metadata.resourceVersion
    if (this.#progress !== undefined && compareVersions(version, this.#progress) <= 0) return []
    const cached = this.get(object.metadata)
    if (cached && compareVersions(version, cached.metadata.resourceVersion) <= 0) return []
    return [this.#put(object)]
  }

  #put(object: T): Change<T> {
    const { namespace = '', name } = object.metadata
    let objects = this.#namespaces.get(namespace)
    if (!objects) {
      objects = new Map()
      this.#namespaces.set(namespace, objects)
    }
    const previous = objects.get(name)
    objects.set(name, object)
    if (previous) this.#unindex(previous)
    else this.#size++
    this.#index(object)
    return previous ? { type: 'set', object, previous } : { type: 'set', object }
  }

  #remove(cached: T, last: T): Change<T> {
    const { namespace = '', name } = cached.metadata
    const objects = this.#namespaces.get(namespace)
    if (objects?.delete(name)) this.#size--
    if (objects?.size === 0) this.#namespaces.delete(namespace)
    this.#unindex(cached)
    return { type: 'deleted', object: last, previous: cached }
  }

  #index(object: T): void {
    for (const { valuesOf, entries } of this.#indexes.values()) {
      for (const value of valuesOf(object)) {
        const entry = entries.get(value)
        if (entry instanceof Set) entry.add(object)
        else if (entry === undefined) entries.set(value, object)
        // An index function may return a value twice.
        else if (entry !== object) entries.set(value, new Set([entry, object]))
      }
    }
  }

  #unindex(object: T): void {
    for (const { valuesOf, entries } of this.#indexes.values()) {
      for (const value of valuesOf(object)) {
        const entry = entries.get(value)
        if (entry === object || (entry instanceof Set && entry.delete(object) && entry.size === 0))
          entries.delete(value)
      }
    }
  }
}
