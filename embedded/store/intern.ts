/**
 * Keeps one copy of field sets that many objects share: the fields that a controller owns differ little between
 * objects, and would otherwise use as much memory as the objects.
 */
import type { ManagedFieldsEntry } from '../../crds/metadata.ts'
import type { FieldSet } from './fields.ts'
import { freeze, isObject, type JsonObject, type JsonValue, type MutableObject } from './json.ts'

/** Beyond this many, sets differ too much to share; the table is emptied. */
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

/** The set with the parts shared that are usually equal: everything except owners, which contain a uid. */
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

/** The entries, sharing the parts that equal those of other objects. */
export const internEntries = (entries: readonly ManagedFieldsEntry[]): ManagedFieldsEntry[] =>
  // A field set is JSON; the type of an entry is only less exact.
  entries.map(entry => ({ ...entry, fieldsV1: internSet(entry.fieldsV1 as FieldSet) }))
