/**
 * Server-side apply on values: which fields a value sets, what changed between two values, how a value merges into
 * another, and how fields are removed. Pure functions of values, their shape and sets of fields.
 */
import { childrenOf, emptySet, type FieldSet, isMember, node, reaches } from './fields.ts'
import { equal, type JsonObject, type JsonValue, type MutableObject } from './json.ts'
import { fieldShape, type Parts, partsOf, type Shape } from './shape.ts'

/** The fields that a value sets: its leaves, and every item of a list whose items have separate owners. */
export function fieldsOf(shape: Shape, value: JsonValue): FieldSet {
  const parts = partsOf(shape, value)
  const result: MutableObject = {}
  if (parts.type === 'fields') {
    for (const field in parts.value) {
      const child = parts.value[field]
      if (child !== undefined) result[`f:${field}`] = fieldsOf(fieldShape(shape, field), child)
    }
  }
  if (parts.type === 'items') {
    for (const [index, element] of parts.elements.entries()) {
      result[element] = node(true, fieldsOf(parts.item, parts.value[index] ?? null)) ?? emptySet
    }
  }
  return result
}

export type Comparison = {
  /** Set in the new value, and missing or different before. */
  readonly changed: FieldSet
  /** Set in the old value and missing in the new. */
  readonly removed: FieldSet
}

const same: Comparison = { changed: emptySet, removed: emptySet }

/** What changed from one value to another, below the root. */
export function compare(shape: Shape, before: JsonValue, after: JsonValue): Comparison {
  if (before === after) return same
  const changed: MutableObject = {}
  const removed: MutableObject = {}
  const old = childValues(shape, before)
  const now = childValues(shape, after)
  for (const [element, child] of now) {
    const previous = old.get(element)
    if (previous === undefined) changed[element] = nodeOf(element, child)
    else if (previous.value !== child.value) {
      const inside = compareChild(child.shape, previous.value, child.value)
      const itself = inside === 'replaced'
      const changedNode = itself ? nodeOf(element, child) : node(false, inside.changed)
      const removedNode = itself ? undefined : node(false, inside.removed)
      if (changedNode !== undefined) changed[element] = changedNode
      if (removedNode !== undefined) removed[element] = removedNode
    }
  }
  for (const [element, child] of old) if (!now.has(element)) removed[element] = nodeOf(element, child)
  return { changed, removed }
}

function compareChild(shape: Shape, before: JsonValue, after: JsonValue): Comparison | 'replaced' {
  const old = partsOf(shape, before)
  if (old.type === 'whole' || old.type !== partsOf(shape, after).type) {
    return equal(before, after) ? same : 'replaced'
  }
  return compare(shape, before, after)
}

type Child = { readonly value: JsonValue; readonly shape: Shape }

const nodeOf = (element: string, { value, shape }: Child): FieldSet =>
  node(!element.startsWith('f:'), fieldsOf(shape, value)) ?? emptySet

/** The children of a value, by path element. */
function childValues(shape: Shape, value: JsonValue): Map<string, Child> {
  const parts = partsOf(shape, value)
  const children = new Map<string, Child>()
  if (parts.type === 'fields') {
    for (const [field, child] of Object.entries(parts.value)) {
      children.set(`f:${field}`, { value: child, shape: fieldShape(shape, field) })
    }
  }
  if (parts.type === 'items') {
    for (const [index, element] of parts.elements.entries()) {
      children.set(element, { value: parts.value[index] ?? null, shape: parts.item })
    }
  }
  return children
}

/** Returns `live` with all fields that `applied` sets. */
export function merge(shape: Shape, live: JsonValue, applied: JsonValue): JsonValue {
  const below = partsOf(shape, live)
  const above = partsOf(shape, applied)
  if (below.type === 'fields' && above.type === 'fields') {
    const result: MutableObject = { ...below.value }
    for (const [field, child] of Object.entries(above.value)) {
      const present = result[field]
      result[field] = present === undefined ? child : merge(fieldShape(shape, field), present, child)
    }
    return result
  }
  if (below.type === 'items' && above.type === 'items') return mergeItems(below, above)
  return applied
}

type Items = Extract<Parts, { type: 'items' }>

/**
 * Applied items keep their order. Other live items keep their place between the items that both lists contain.
 */
function mergeItems(live: Items, applied: Items): JsonValue[] {
  const wanted = new Map(applied.elements.map((element, index) => [element, applied.value[index] ?? null]))
  const present = new Map(live.elements.map((element, index) => [element, live.value[index] ?? null]))
  const result: JsonValue[] = []
  let next = 0
  /** Adds the applied items up to index `last`. */
  const addThrough = (last: number): void => {
    for (; next <= last; next++) {
      const element = applied.elements[next] ?? ''
      const above = wanted.get(element) ?? null
      const below = present.get(element)
      result.push(below === undefined ? above : merge(applied.item, below, above))
    }
  }
  for (const [index, element] of live.elements.entries()) {
    if (!wanted.has(element)) result.push(live.value[index] ?? null)
    else addThrough(applied.elements.indexOf(element))
  }
  addThrough(applied.elements.length - 1)
  return result
}

/**
 * Removes the fields in `fields` that have no owner. Removes a field, with everything below it, if `owned` contains
 * neither the field nor anything below it.
 */
export function prune(shape: Shape, value: JsonValue, fields: FieldSet, owned: FieldSet): JsonValue {
  const parts = partsOf(shape, value)
  if (parts.type === 'fields') return pruneFields(shape, parts.value, fields, owned)
  if (parts.type !== 'items') return value
  return parts.value.flatMap((item, index) => {
    const element = parts.elements[index] ?? ''
    if (!reaches(fields, element)) return [item]
    if (!reaches(owned, element)) return isMember(fields, element) ? [] : [item]
    return [prune(parts.item, item, childrenOf(fields, element), childrenOf(owned, element))]
  })
}

function pruneFields(shape: Shape, value: JsonObject, fields: FieldSet, owned: FieldSet): JsonObject {
  const result: MutableObject = {}
  for (const [field, child] of Object.entries(value)) {
    const element = `f:${field}`
    if (!reaches(fields, element)) result[field] = child
    else if (reaches(owned, element)) {
      result[field] = prune(fieldShape(shape, field), child, childrenOf(fields, element), childrenOf(owned, element))
    }
  }
  return result
}
