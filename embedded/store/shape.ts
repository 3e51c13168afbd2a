/**
 * How apply merges the fields of a kind: which lists are maps or sets with an owner per item, and which values have one
 * owner. By default an object has an owner per field, and a list has one owner (Kubernetes documentation, "Server-Side
 * Apply", merge strategy).
 */
import { isList, isObject, type JsonList, type JsonObject, type JsonValue } from './json.ts'
import type { SchemaNode } from './schema-node.ts'

export type Shape =
  /** A value that has one owner as a whole. */
  | { readonly type: 'atomic' }
  /** An object: shapes for some of its fields, and one shape for all other fields. */
  | {
      readonly type: 'object'
      readonly fields: { readonly [field: string]: Shape }
      readonly others: Shape | undefined
    }
  | { readonly type: 'set' }
  /** A list of objects, identified by the values of some fields. A missing key counts as its default. */
  | {
      readonly type: 'map'
      readonly keys: readonly string[]
      readonly keyDefaults: JsonObject
      readonly item: Shape
    }

export const atomic: Shape = { type: 'atomic' }
export const set: Shape = { type: 'set' }
export const fields = (known: { readonly [field: string]: Shape }, others?: Shape): Shape => ({
  type: 'object',
  fields: known,
  others,
})
export const listBy = (keys: readonly string[], item: Shape = plain, keyDefaults: JsonObject = {}): Shape => ({
  type: 'map',
  // Sorted, because path elements contain the keys in sorted order.
  keys: keys.toSorted(),
  keyDefaults,
  item,
})
/** An object without special rules. */
const plain: Shape = fields({})

export const fieldShape = (shape: Shape, field: string): Shape =>
  shape.type === 'object' ? ((Object.hasOwn(shape.fields, field) ? shape.fields[field] : shape.others) ?? plain) : plain

/** Metadata rules of apply, for every kind. */
export const metadataShape: Shape = fields({ finalizers: set, ownerReferences: listBy(['uid'], atomic) })

/** The shape that a structural schema defines. */
export function shapeOf(node: SchemaNode | undefined): Shape {
  if (node === undefined) return plain
  if (node.type === 'array') {
    if (node.listType === 'set') return set
    return node.listType === 'map' ? listBy(node.listKeys, shapeOf(node.items), keyDefaultsOf(node)) : atomic
  }
  if (node.atomicMap) return atomic
  const known = Object.fromEntries([...node.properties].map(([field, child]) => [field, shapeOf(child)]))
  return fields(known, node.values === undefined ? undefined : shapeOf(node.values))
}

function keyDefaultsOf(node: SchemaNode): JsonObject {
  const defaults = node.listKeys.flatMap(key => {
    const value = node.items?.properties.get(key)?.default
    return value === undefined ? [] : [[key, value]]
  })
  return Object.fromEntries(defaults)
}

/**
 * How a value is merged: by field, by item, or as a whole. A value that does not match its shape is merged as a whole.
 */
export type Parts =
  | { readonly type: 'whole' }
  | { readonly type: 'fields'; readonly value: JsonObject }
  | { readonly type: 'items'; readonly value: JsonList; readonly elements: readonly string[]; readonly item: Shape }

const indivisible: Parts = { type: 'whole' }

export function partsOf(shape: Shape, value: JsonValue): Parts {
  if (isObject(value)) return shape.type === 'object' ? { type: 'fields', value } : indivisible
  if (!isList(value) || (shape.type !== 'set' && shape.type !== 'map')) return indivisible
  const elements = value.map(item => elementOf(shape, item))
  if (elements.includes('') || new Set(elements).size !== elements.length) return indivisible
  return { type: 'items', value, elements, item: shape.type === 'map' ? shape.item : atomic }
}

/** The path element of an item; empty if a key is missing. */
function elementOf(shape: Shape, item: JsonValue): string {
  if (shape.type === 'set') return `v:${JSON.stringify(item)}`
  if (shape.type !== 'map' || !isObject(item)) return ''
  let keys = ''
  for (const key of shape.keys) {
    const value = item[key] ?? shape.keyDefaults[key]
    if (value !== undefined) keys += `${keys === '' ? '' : ','}"${key}":${JSON.stringify(value)}`
  }
  return keys === '' ? '' : `k:{${keys}}`
}
