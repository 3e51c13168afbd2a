/**
 * The recent changes of one kind, oldest first, in a bounded ring. Each watch reads from the ring with its own cursor,
 * so a slow watch costs no memory. A watch that falls behind the ring must list again. Consistent paging uses the ring
 * too: the list at an older version is the current list with later changes undone.
 */
import type { JsonObject } from './json.ts'
import { metadataOf, type ObjectReference } from './objects.ts'

export type Change = {
  readonly version: number
  readonly reference: ObjectReference
  /** The new object. After a deletion: the last state, with the version of the deletion. */
  readonly object: JsonObject
  readonly previous: JsonObject | undefined
  readonly deleted: boolean
}

export type History = {
  push(change: Change): void
  /** The oldest version from which the ring has every later change. */
  readonly oldest: number
  /** The cursor of the first change after a version. */
  cursorAfter(version: number): number
  /**
   * Returns the change at a cursor. Returns undefined at the end, and 'lost' if the change is no longer in the ring.
   */
  at(cursor: number): Change | undefined | 'lost'
  /** The changes after a version, newest first. */
  newestFirst(version: number): Iterable<Change>
}

/** @param start the version at which the history starts */
export function createHistory(capacity: number, start: number): History {
  let changes: Change[] = []
  let dropped = 0
  let oldest = start

  return {
    push(change) {
      changes.push(change)
      // Dropping half at once keeps the average cost of a push constant.
      if (changes.length < capacity * 2) return
      const surplus = changes.length - capacity
      oldest = changes[surplus - 1]?.version ?? oldest
      changes = changes.slice(surplus)
      dropped += surplus
    },
    get oldest() {
      return oldest
    },
    cursorAfter(version) {
      let low = 0
      let high = changes.length
      while (low < high) {
        const middle = (low + high) >>> 1
        if ((changes[middle]?.version ?? 0) <= version) low = middle + 1
        else high = middle
      }
      return dropped + low
    },
    at: cursor => (cursor < dropped ? 'lost' : changes[cursor - dropped]),
    *newestFirst(version) {
      for (let index = changes.length - 1; index >= 0; index--) {
        const change = changes[index]
        if (change === undefined || change.version <= version) return
        yield change
      }
    },
  }
}

/** Rebuilds a sorted list of a kind at an older version that the history still covers. */
export function listAt(current: JsonObject[], history: History, version: number, namespace?: string): JsonObject[] {
  const before = new Map<string, JsonObject | undefined>()
  for (const { reference, previous } of history.newestFirst(version)) {
    if (namespace === undefined || reference.namespace === namespace) before.set(sortKey(reference), previous)
  }
  if (before.size === 0) return current
  const merged = new Map(current.map(object => [sortKey(metadataOf(object)), object]))
  for (const [key, previous] of before) {
    if (previous === undefined) merged.delete(key)
    else merged.set(key, previous)
  }
  return [...merged.entries()].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, object]) => object)
}

/** Orders objects by namespace, then name: the separator sorts before every character of a name. */
export const sortKey = ({ namespace = '', name }: { namespace?: string; name: string }): string =>
  `${namespace}\u0000${name}`
