/**
 * Records which fields of an owner's children the operator restored. If a manager changes a field again after each
 * restore, a condition names the field and the manager, and the next restore waits. If the response to the write that
 * removed a field still contains it, the field belongs to the cluster (a default, a webhook). The operator does not
 * remove it again.
 */
import type { AnyObject } from '../../cluster/index.ts'
import type { Drift } from '../objects/foreign-fields.ts'
import { draftAnnotation } from '../objects/up-to-date.ts'

/**
 * How many times within the window the operator restores a field without a pause: `same`, from the same value; `any`,
 * from any value.
 */
const atOnce = { same: 5, any: 100 }
const windowMs = 10 * 60_000
const firstPauseMs = 10_000
const lastPauseMs = 5 * 60_000
/** The maximum length of the history of a field, and of a child. */
const mostTimes = 128
const mostFields = 50
const mostFingerprints = 200
/** The number of owners whose last writes are recorded. */
const mostOwners = 2_000

/** A field that another manager changes repeatedly. */
type FieldConflict = Omit<Correction, 'fingerprint'> & {
  /** The repeated value. Absent if the value differs each time. */
  fingerprint: string | undefined
  /** Kind and name. */
  child: string
  /** How often the operator restored it within the window. */
  times: number
  /** The time of the next restore, in ms since the epoch. */
  retryAt: number
  isDue: boolean
  /** The time when it stops counting as a drift, unless it is changed again. */
  endsAt: number
}

/** The drifts of one owner's children, by `childOf`. */
export type Drifts = {
  conflicts: readonly FieldConflict[]
  /** Digests of the fields that belong to the cluster. */
  tolerated: ReadonlyMap<string, ReadonlySet<string>>
  /** The digests of the last written drafts. */
  written: ReadonlyMap<string, string>
}

export const noDrifts: Drifts = { conflicts: [], tolerated: new Map(), written: new Map() }

/** A field that the operator restores, and the manager that changed it. */
export type Correction = {
  field: string
  manager: string
  /** Changes when the other manager sets another value. */
  fingerprint: string
}

export type DriftHistory = {
  of(key: string): Drifts
  /** Records that a child was written. */
  wrote(key: string, object: AnyObject): void
  /** Records that fields were restored. `remaining`: the drift of the written object. */
  putBack(key: string, object: AnyObject, corrections: readonly Correction[], remaining: readonly Drift[]): void
  forget(key: string): void
}

export const childOf = ({ kind, metadata }: Pick<AnyObject, 'kind' | 'metadata'>): string => `${kind} ${metadata.name}`

type Field = Omit<FieldConflict, 'child' | 'times' | 'retryAt' | 'isDue' | 'endsAt'> & { times: number[] }
type Entry = { uid: string | undefined; fields: Map<string, Field>; tolerated: Set<string> }

const limitOf = ({ fingerprint }: Pick<Field, 'fingerprint'>): number =>
  fingerprint === undefined ? atOnce.any : atOnce.same
const pauseAfter = (beyond: number): number => Math.min(lastPauseMs, firstPauseMs * 2 ** beyond)

export function createDriftHistory(now: () => number): DriftHistory {
  const histories = new Map<string, Map<string, Entry>>()
  /** The owners whose children were written last. */
  const written = new Map<string, Map<string, string>>()
  const recent = ({ times }: Field): number[] => times.filter(at => at > now() - windowMs)

  const conflictsOf = (child: string, found: Field): FieldConflict[] => {
    const [times, limit] = [recent(found), limitOf(found)]
    const last = times.at(-1)
    if (last === undefined || times.length < limit) return []
    const retryAt = last + pauseAfter(times.length - limit)
    const endsAt = (times.at(-limit) ?? last) + windowMs
    return [{ ...found, child, times: times.length, retryAt, isDue: now() >= retryAt, endsAt }]
  }

  return {
    of: key => {
      const history = histories.get(key) ?? new Map<string, Entry>()
      return {
        conflicts: [...history].flatMap(([child, { fields }]) =>
          [...fields.values()].flatMap(found => conflictsOf(child, found)),
        ),
        tolerated: new Map([...history].map(([child, { tolerated }]) => [child, tolerated])),
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
      const history = histories.get(key) ?? new Map<string, Entry>()
      histories.set(key, history)
      const child = childOf(object)
      const { uid } = object.metadata
      const before = history.get(child)
      const fields = before?.fields ?? new Map<string, Field>()
      const tolerated = before !== undefined && before.uid === uid ? before.tolerated : new Set<string>()
      history.set(child, { uid, fields, tolerated })
      for (const { fingerprint } of remaining.slice(0, mostFingerprints - tolerated.size)) tolerated.add(fingerprint)
      const own = new Set(remaining.map(({ field }) => field))
      // The write itself returned this value, so no other manager set it.
      for (const { field, manager, fingerprint } of corrections.filter(({ field }) => !own.has(field)))
        for (const found of [
          { field, manager, fingerprint },
          { field, manager, fingerprint: undefined },
        ]) {
          const name = found.fingerprint ?? field
          const times = recent(fields.get(name) ?? { ...found, times: [] })
          fields.delete(name)
          fields.set(name, { ...found, times: [...times, now()].slice(-mostTimes) })
        }
      for (const field of [...fields.keys()].slice(0, -mostFields)) fields.delete(field)
    },
    forget: key => {
      histories.delete(key)
      written.delete(key)
    },
  }
}
