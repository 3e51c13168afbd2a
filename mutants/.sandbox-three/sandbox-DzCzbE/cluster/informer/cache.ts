/**
 * The objects of one kind as last seen, with indexes. It takes in lists, watch events and our own writes in any
 * interleaving, and tells what each of them changed; it does no input or output and knows no time.
 *
 * What it promises rests on one fact: resourceVersions of a kind are ordered, and `progress` is the version up to which
 * every change has been taken in. So an object of ours at or below `progress` is either in the cache already or gone,
 * and one above it is news that neither an older event nor an older list may undo.
 */
// @ts-nocheck

import type { ObjectMeta } from '../../crds/index.ts'
import type { ObjectKey, WatchEvent } from '../port.ts'
import { compareVersions } from './version.ts'

export type Cacheable = { metadata: ObjectMeta }

/** `previous` is what the cache held before; a deletion carries the last state known. */
export type Change<T> = { type: 'set' | 'deleted'; object: T; previous?: T }

export type IndexFunctions<T> = Record<string, (object: T) => readonly string[]>

/** Most values have one object, for which a set of its own would take more memory than many an object. */
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

  /** All objects, or those of one namespace; in no particular order. */
  list(filter: { namespace?: string | undefined } = {}): T[] {
    if (filter.namespace !== undefined) return [...(this.#namespaces.get(filter.namespace)?.values() ?? [])]
    const result: T[] = []
    for (const objects of this.#namespaces.values()) for (const object of objects.values()) result.push(object)
    return result
  }

  /** The objects for which the index function gave this value. An index that was not declared is a mistake: throws. */
  byIndex(name: string, value: string): T[] {
    const index = this.#indexes.get(name)
    if (!index) throw new Error(`there is no index "${name}"`)
    const entry = index.entries.get(value)
    if (entry === undefined) return []
    return entry instanceof Set ? [...entry] : [entry]
  }

  /** Takes in one watch event. An event older than what the cache holds of that object changes nothing. */
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
   * Takes in a complete list as of `version`: what it lacks was deleted meanwhile. Objects of ours newer than the list
   * stay. A list older than `progress` means that the server itself went back (restored from a backup): then the list
   * alone is the truth.
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

  /** Takes in what a write of ours returned, unless the cache already knows as much or more. */
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
        // A function may give a value twice.
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
