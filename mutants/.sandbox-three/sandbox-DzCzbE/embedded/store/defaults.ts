/** Fills in the defaults of a structural schema, wherever the object around them is present. */
// @ts-nocheck

import { isList, isObject, type JsonValue, type MutableObject } from './json.ts'
import type { SchemaNode } from './schema-node.ts'

/** The value with its defaults; the very same value where none was missing. A null that may not be one counts as absent. */
export function withDefaults(node: SchemaNode, value: JsonValue): JsonValue {
  if (!node.hasDefaults) return value
  if (isList(value)) {
    const { items } = node
    if (items === undefined) return value
    const filled = value.map(item => withDefaults(items, item))
    return filled.every((item, index) => item === value[index]) ? value : filled
  }
  if (!isObject(value)) return value
  let result: MutableObject | undefined
  for (const [field, child] of node.properties) {
    const present = value[field]
    const missing = present === undefined || (present === null && !child.nullable)
    const next = missing && child.default !== undefined ? child.default : present
    const filled = next === undefined ? undefined : withDefaults(child, next)
    if (filled === undefined || filled === present) continue
    result ??= { ...value }
    result[field] = filled
  }
  if (node.values?.hasDefaults) {
    for (const [key, child] of Object.entries(value)) {
      const filled = node.properties.has(key) ? child : withDefaults(node.values, child)
      if (filled === child) continue
      result ??= { ...value }
      result[key] = filled
    }
  }
  return result ?? value
}
