/**
 * Checks a value against its structural schema, in the API server's words. It does not check a subtree that a write
 * leaves unchanged, so that an object stored under older rules can still be written. Only rules with `oldSelf` check
 * such a subtree (Kubernetes documentation, "Validation ratcheting").
 */
import { runRules } from './cel.ts'
import { equal, isList, isObject, type JsonList, type JsonObject, type JsonValue } from './json.ts'
import {
  duplicate,
  invalid,
  type Problem,
  required,
  tooLong,
  tooMany,
  typeOf,
  unsupported,
  wrongType,
} from './problems.ts'
import type { SchemaNode } from './schema-node.ts'

/** Paths of fields that are not in the schema. */
export function unknownFields(node: SchemaNode, value: JsonValue, path = ''): string[] {
  if (isList(value)) {
    const { items } = node
    return items === undefined ? [] : value.flatMap((item, index) => unknownFields(items, item, `${path}[${index}]`))
  }
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([field, child]) => {
    const at = join(path, field)
    const schema = node.properties.get(field) ?? node.values
    if (schema !== undefined) return unknownFields(schema, child, at)
    return node.preserveUnknown ? [] : [at]
  })
}

/** Violations of the schema or a rule. Rules run only if types and required fields are valid. */
export function validate(node: SchemaNode, value: JsonValue, old?: JsonValue): Problem[] {
  const problems = check(node, value, old, '')
  if (problems.some(({ blocking }) => blocking)) return problems
  return [...problems, ...checkRules(node, value, old, '')]
}

const join = (path: string, field: string): string => (path === '' ? field : `${path}.${field}`)

function check(node: SchemaNode, value: JsonValue, old: JsonValue | undefined, path: string): Problem[] {
  if (value === old) return []
  if (value === null && node.nullable) return []
  if (!hasType(node, value))
    return [wrongType(path, value, node.intOrString ? 'integer,string' : (node.type ?? 'object'))]
  const problems = node.enum?.some(each => equal(each, value)) === false ? [unsupported(path, value, node.enum)] : []
  if (typeof value === 'string') problems.push(...checkText(node, value, path))
  if (typeof value === 'number') problems.push(...checkNumber(node, value, path))
  if (isList(value)) problems.push(...checkList(node, value, old, path))
  if (isObject(value)) problems.push(...checkObject(node, value, old, path))
  return problems
}

function hasType(node: SchemaNode, value: JsonValue): boolean {
  const type = typeOf(value)
  if (node.intOrString) return type === 'integer' || type === 'string'
  if (node.type === undefined) return true
  return type === node.type || (node.type === 'number' && type === 'integer')
}

const dateTime = /^(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i

/** Whether a text is an RFC 3339 date and time on an existing day. */
function isDateTime(text: string): boolean {
  const [, year, month, day] = dateTime.exec(text) ?? []
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)))
  return date.getUTCMonth() + 1 === Number(month) && date.getUTCDate() === Number(day)
}

function checkText(node: SchemaNode, value: string, path: string): Problem[] {
  const { minLength, maxLength } = node.limits
  const problems: Problem[] = []
  // Lengths count characters, not UTF-16 units. The cheap upper bound is checked first.
  const length = minLength === undefined && value.length <= (maxLength ?? 0) ? 0 : [...value].length
  if (maxLength !== undefined && length > maxLength) problems.push(tooLong(path, maxLength))
  if (minLength !== undefined && length < minLength) {
    problems.push(invalid(path, value, `${path} in body should be at least ${minLength} chars long`))
  }
  if (node.pattern !== undefined && !node.pattern.expression.test(value)) {
    problems.push(invalid(path, value, `${path} in body should match '${node.pattern.source}'`))
  }
  if (node.format === 'date-time' && !isDateTime(value)) {
    problems.push(invalid(path, value, `${path} in body must be of type date-time: "${value}"`))
  }
  return problems
}

function checkNumber(node: SchemaNode, value: number, path: string): Problem[] {
  const { minimum, maximum } = node.limits
  const problems: Problem[] = []
  if (minimum !== undefined && value < minimum) {
    problems.push(invalid(path, value, `${path} in body should be greater than or equal to ${minimum}`))
  }
  if (maximum !== undefined && value > maximum) {
    problems.push(invalid(path, value, `${path} in body should be less than or equal to ${maximum}`))
  }
  return problems
}

function checkList(node: SchemaNode, value: JsonList, old: JsonValue | undefined, path: string): Problem[] {
  const { minItems, maxItems } = node.limits
  const problems: Problem[] = []
  if (maxItems !== undefined && value.length > maxItems) problems.push(tooMany(path, value.length, maxItems))
  if (minItems !== undefined && value.length < minItems) {
    problems.push(invalid(path, value, `${path} in body should have at least ${minItems} items`))
  }
  problems.push(...checkUnique(node, value, path))
  const { items } = node
  if (items === undefined) return problems
  const before = previousItems(node, old)
  for (const [index, item] of value.entries()) problems.push(...check(items, item, before(item), `${path}[${index}]`))
  return problems
}

function checkUnique(node: SchemaNode, value: JsonList, path: string): Problem[] {
  if (node.listType === 'atomic' || value.length < 2) return []
  const seen = new Set<string>()
  return value.flatMap((item, index) => {
    const key = itemKey(node, item)
    const text = JSON.stringify(key)
    if (seen.has(text)) return [duplicate(`${path}[${index}]`, key)]
    seen.add(text)
    return []
  })
}

function itemKey(node: SchemaNode, item: JsonValue): JsonValue {
  if (node.listType !== 'map' || !isObject(item)) return item
  return Object.fromEntries(node.listKeys.flatMap(key => (item[key] === undefined ? [] : [[key, item[key]]])))
}

/** Finds the previous value of an item. Only items of a map list have an identity. */
function previousItems(node: SchemaNode, old: JsonValue | undefined): (item: JsonValue) => JsonValue | undefined {
  if (node.listType !== 'map' || !isList(old)) return () => undefined
  const byKey = new Map(old.map(item => [JSON.stringify(itemKey(node, item)), item]))
  return item => byKey.get(JSON.stringify(itemKey(node, item)))
}

function checkObject(node: SchemaNode, value: JsonObject, old: JsonValue | undefined, path: string): Problem[] {
  const { minProperties, maxProperties } = node.limits
  const problems: Problem[] = []
  const before = isObject(old) ? old : {}
  for (const field of node.required) if (value[field] === undefined) problems.push(required(join(path, field)))
  const fields = Object.keys(value)
  if (maxProperties !== undefined && fields.length > maxProperties) {
    problems.push(tooMany(path, fields.length, maxProperties))
  }
  if (minProperties !== undefined && fields.length < minProperties) {
    problems.push(invalid(path, value, `${path} in body should have at least ${minProperties} properties`))
  }
  for (const field of fields) {
    const schema = node.properties.get(field) ?? node.values
    if (schema !== undefined) problems.push(...check(schema, value[field] ?? null, before[field], join(path, field)))
  }
  return problems
}

function checkRules(node: SchemaNode, value: JsonValue, old: JsonValue | undefined, path: string): Problem[] {
  const unchanged = value === old
  if (value === null || (unchanged && !node.hasTransitions)) return []
  const problems = runRules(node, value, old, path, unchanged ? 'transition' : 'all')
  if (isList(value) && node.items !== undefined) {
    const before = previousItems(node, old)
    for (const [index, item] of value.entries()) {
      problems.push(...checkRules(node.items, item, before(item), `${path}[${index}]`))
    }
  }
  if (isObject(value)) {
    const previous = isObject(old) ? old : {}
    for (const [field, child] of Object.entries(value)) {
      const schema = node.properties.get(field) ?? node.values
      if (schema !== undefined) problems.push(...checkRules(schema, child, previous[field], join(path, field)))
    }
  }
  return problems
}
