/**
 * Keeps one copy of the field sets that many objects have alike: what a controller owns differs little from object to
 * object, and would otherwise take as much memory as the objects themselves.
 */
// @ts-nocheck

import type { ManagedFieldsEntry } from '../../crds/metadata.ts'
import type { FieldSet } from './fields.ts'
import { freeze, isObject, type JsonObject, type JsonValue, type MutableObject } from './json.ts'

/** Beyond this many, sets are too various for sharing to pay; the table begins anew. */
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

/** The set with the parts shared that are likely to be alike: all but the owners, which hold a uid. */
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

/** The entries with what they have in common with those of other objects shared. */
export const internEntries = (entries: readonly ManagedFieldsEntry[]): ManagedFieldsEntry[] =>
  // A field set is JSON; the entry's type only says less of it.
  entries.map(entry => ({ ...entry, fieldsV1: internSet(entry.fieldsV1 as FieldSet) }))
