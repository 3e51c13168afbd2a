/**
 * Keeps one copy of field sets that many objects share. The fields that a controller owns are nearly the same in all
 * its objects. Without sharing, they would use as much memory as the objects.
 */
import type { ManagedFieldsEntry } from '../../crds/metadata.ts'
import type { FieldSet } from './fields.ts'
import { freeze, isObject, type JsonObject, type JsonValue, type MutableObject } from './json.ts'

/** The table is emptied at this size, because so many different sets are not worth sharing. */
const mostSets = 5000
const sets = new Map<string, FieldSet>()

function shared(set: FieldSet): FieldSet {
  const text = JSON.stringify(set)
  const known = sets.get(text)
  if (known !== undefined) return known
  if (sets.size >= mostSets) sets.clear()
  sets.set(text, freeze(set))
  return set
}

/** Shares the parts of a set that are usually equal: everything except owners, which contain a uid. */
function internSet(set: FieldSet): FieldSet {
  const result: MutableObject = {}
  for (const [element, part] of Object.entries(set)) {
    if (!isObject(part)) continue
    result[element] = element === 'f:metadata' ? internMetadata(part) : shared(part)
  }
  return result
}

const internMetadata = (part: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(part).map(([element, below]): [string, JsonValue] =>
      element === 'f:ownerReferences' || !isObject(below) ? [element, below] : [element, shared(below)],
    ),
  )

/** Returns the entries, which share equal parts with the entries of other objects. */
export const internEntries = (entries: readonly ManagedFieldsEntry[]): ManagedFieldsEntry[] =>
  // `fieldsV1` is a field set, but has a less exact type.
  entries.map(entry => ({ ...entry, fieldsV1: internSet(entry.fieldsV1 as FieldSet) }))
