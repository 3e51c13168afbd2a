/**
 * JSON values in the store. A value is copied once on write, deeply frozen, and then shared by all readers. A new
 * version of an object shares every unchanged subtree with the previous version.
 */
import { ClusterError } from '../../cluster/errors.ts'
import { isRecord } from '../../values/record.ts'

export type JsonList = readonly JsonValue[]
export type JsonObject = { readonly [field: string]: JsonValue }
export type JsonValue = string | number | boolean | null | JsonList | JsonObject
/** A JSON object under construction. Only its creator changes it. */
export type MutableObject = { [field: string]: JsonValue }

export const isList = (value: unknown): value is JsonList => Array.isArray(value)
export const isObject = (value: unknown): value is JsonObject => isRecord(value)

/** The object in this field; an empty one if missing. */
export const objectIn = (value: JsonValue | undefined, field: string): JsonObject => {
  const child = isObject(value) ? value[field] : undefined
  return isObject(child) ? child : {}
}
/** The list in this field; an empty one if missing. */
export const listIn = (value: JsonValue | undefined, field: string): JsonList => {
  const child = isObject(value) ? value[field] : undefined
  return isList(child) ? child : []
}
/** The text in this field, if it is text. */
export const textIn = (value: JsonValue | undefined, field: string): string | undefined => {
  const child = isObject(value) ? value[field] : undefined
  return typeof child === 'string' ? child : undefined
}

const deepest = 100

/**
 * Copies a value as JSON would: omits undefined fields and converts dates to text. The copy shares nothing mutable with
 * its source.
 * @throws ClusterError `BadRequest` for values that JSON does not have, and for nesting beyond 100 levels
 */
export function copyJson(value: unknown, path = '', depth = 0): JsonValue {
  if (depth > deepest)
    throw new ClusterError('BadRequest', `${path.slice(0, 200)}: nested deeper than ${deepest} levels`)
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value
    throw new ClusterError('BadRequest', `${path}: ${value} is not a number that JSON can hold`)
  }
  if (Array.isArray(value)) {
    return value.map((item, index) => copyJson(item === undefined ? null : item, `${path}[${index}]`, depth + 1))
  }
  if (value instanceof Date) return value.toISOString()
  if (typeof value !== 'object') throw new ClusterError('BadRequest', `${path}: JSON has no ${typeof value}`)
  const copy: MutableObject = {}
  for (const [field, child] of Object.entries(value)) {
    if (child === undefined) continue
    const childPath = path === '' ? field : `${path}.${field}`
    if (field === '__proto__') throw new ClusterError('BadRequest', `${childPath}: not allowed as a field name`)
    copy[field] = copyJson(child, childPath, depth + 1)
  }
  return copy
}

/** Whether two values are the same JSON; the order of fields does not count, the order of lists does. */
export function equal(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === other) return true
  if (isList(one)) {
    return isList(other) && one.length === other.length && one.every((item, index) => equal(item, other[index]))
  }
  if (!isObject(one) || !isObject(other)) return false
  let fields = 0
  for (const field in one) {
    if (!equal(one[field], other[field])) return false
    fields++
  }
  for (const _ in other) fields--
  return fields === 0
}

/** Returns `next`, but reuses each subtree of `previous` that is equal. */
export function share(previous: JsonValue | undefined, next: JsonValue): JsonValue {
  if (previous === next || previous === undefined) return next
  if (isList(next)) {
    if (!isList(previous)) return next
    const items = next.map((item, index) => share(previous[index], item))
    return items.length === previous.length && items.every((item, index) => item === previous[index]) ? previous : items
  }
  if (!isObject(next) || !isObject(previous)) return next
  const result: MutableObject = {}
  let same = true
  let fields = 0
  for (const field in next) {
    const child = next[field]
    if (child === undefined) continue
    const shared = share(previous[field], child)
    result[field] = shared
    same &&= shared === previous[field]
    fields++
  }
  if (same) for (const _ in previous) fields--
  return same && fields === 0 ? previous : result
}

/** Freezes a value deeply. Assumes that a frozen value contains only frozen values. */
export function freeze<T extends JsonValue>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  if (isList(value)) for (const item of value) freeze(item)
  else for (const field in value) freeze((value as JsonObject)[field] ?? null)
  return value
}

/** Returns `object` with this field set, or without it if the value is undefined. */
export function withField(object: JsonObject, field: string, value: JsonValue | undefined): JsonObject {
  if (value !== undefined) return { ...object, [field]: value }
  const { [field]: _, ...rest } = object
  return rest
}
