/** Sets a structural schema's defaults in a value and in every object that the value contains. */
import { isList, isObject, type JsonValue, type MutableObject } from './json.ts'
import type { SchemaNode } from './schema-node.ts'

/**
 * Returns the value with its defaults, or the identical value if no default was missing. Null counts as missing if the
 * schema does not allow null.
 */
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
