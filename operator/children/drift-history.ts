/**
 * Remembers which fields the operator restored on the children of an owner. If a manager changes a field again after each restore, a
 * condition names both, and the next restore waits. A field that is in the response to the very write that removed it is the cluster's own
 * (a default, a webhook) and stays.
 */
import type { AnyObject } from '../../cluster/index.ts'
import type { Drift } from '../objects/foreign-fields.ts'
import { draftAnnotation } from '../objects/up-to-date.ts'

/** So many times within the window a field is put back at once: from the same value, and from any. */
const atOnce = { same: 5, any: 100 }
const windowMs = 10 * 60_000
const firstPauseMs = 10_000
const lastPauseMs = 5 * 60_000
/** Remembered of one field, and of one child. */
const mostTimes = 128
const mostFields = 50
const mostMarks = 200
/** Of so many owners it is remembered what was written last. */
const mostOwners = 2_000

/** A field that another manager changes again and again. */
type Contest = Omit<Correction, 'mark'> & {
  /** Of one value; absent where the field changes to ever other ones. */
  mark: string | undefined
  /** Kind and name. */
  child: string
  /** How often it was put back within the window. */
  times: number
  /** When to put it back next, in ms since the epoch. */
  retryAt: number
  isDue: boolean
  /** When it is none any more, unless it goes on. */
  endsAt: number
}

/** Of the children of one owner, by `childOf`. */
export type Drifts = {
  contests: readonly Contest[]
  /** Marks of the fields that are the cluster's own. */
  tolerated: ReadonlyMap<string, ReadonlySet<string>>
  /** The digests of the drafts that were last written. */
  written: ReadonlyMap<string, string>
}

export const noDrifts: Drifts = { contests: [], tolerated: new Map(), written: new Map() }

/** A field that the operator puts back, and who changed it. */
export type Correction = {
  field: string
  manager: string
  /** Changes with the value that it is put back from. */
  mark: string
}

export type DriftHistory = {
  of(key: string): Drifts
  /** A child was written. */
  wrote(key: string, object: AnyObject): void
  /** `remaining`: the drift of the object that the write came to. */
  putBack(key: string, object: AnyObject, corrections: readonly Correction[], remaining: readonly Drift[]): void
  forget(key: string): void
}

export const childOf = ({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string => `${kind} ${metadata.name}`

type Field = Omit<Contest, 'child' | 'times' | 'retryAt' | 'isDue' | 'endsAt'> & { times: number[] }
type Entry = { uid: string | undefined; fields: Map<string, Field>; tolerated: Set<string> }

const limitOf = ({ mark }: Pick<Field, 'mark'>): number => (mark === undefined ? atOnce.any : atOnce.same)
const pauseAfter = (beyond: number): number => Math.min(lastPauseMs, firstPauseMs * 2 ** beyond)

export function createDriftHistory(now: () => number): DriftHistory {
  const books = new Map<string, Map<string, Entry>>()
  /** Of the owners that were written last. */
  const written = new Map<string, Map<string, string>>()
  const recent = ({ times }: Field): number[] => times.filter(at => at > now() - windowMs)

  const contestOf = (child: string, found: Field): Contest[] => {
    const [times, limit] = [recent(found), limitOf(found)]
    const last = times.at(-1)
    if (last === undefined || times.length < limit) return []
    const retryAt = last + pauseAfter(times.length - limit)
    const endsAt = (times.at(-limit) ?? last) + windowMs
    return [{ ...found, child, times: times.length, retryAt, isDue: now() >= retryAt, endsAt }]
  }

  return {
    of: key => {
      const book = books.get(key) ?? new Map<string, Entry>()
      return {
        contests: [...book].flatMap(([child, { fields }]) =>
          [...fields.values()].flatMap(found => contestOf(child, found)),
        ),
        tolerated: new Map([...book].map(([child, { tolerated }]) => [child, tolerated])),
        written: written.get(key) ?? noDrifts.written,
      }
    },
    wrote: (key, object) => {
      const digest = object.metadata.annotations?.[draftAnnotation]
      if (digest === undefined) return
      const known = written.get(key) ?? new Map<string, string>()
      written.delete(key)
      written.set(key, known.set(childOf(object), digest))
      const [oldest] = written.keys()
      if (written.size > mostOwners && oldest !== undefined) written.delete(oldest)
    },
    putBack: (key, object, corrections, remaining) => {
      const book = books.get(key) ?? new Map<string, Entry>()
      books.set(key, book)
      const child = childOf(object)
      const { uid } = object.metadata
      const before = book.get(child)
      const fields = before?.fields ?? new Map<string, Field>()
      const tolerated = before !== undefined && before.uid === uid ? before.tolerated : new Set<string>()
      book.set(child, { uid, fields, tolerated })
      for (const { mark } of remaining.slice(0, mostMarks - tolerated.size)) tolerated.add(mark)
      const own = new Set(remaining.map(({ field }) => field))
      // What came back by the write itself is no other manager's doing.
      for (const { field, manager, mark } of corrections.filter(({ field }) => !own.has(field)))
        for (const found of [
          { field, manager, mark },
          { field, manager, mark: undefined },
        ]) {
          const name = found.mark ?? field
          const times = recent(fields.get(name) ?? { ...found, times: [] })
          fields.delete(name)
          fields.set(name, { ...found, times: [...times, now()].slice(-mostTimes) })
        }
      for (const field of [...fields.keys()].slice(0, -mostFields)) fields.delete(field)
    },
    forget: key => {
      books.delete(key)
      written.delete(key)
    },
  }
}
