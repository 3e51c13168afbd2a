/**
 * A structural schema (Kubernetes documentation, "Specifying a structural schema"), converted once for validation,
 * defaults and apply. If a schema or rule has a keyword that the store does not enforce, the store refuses to open. The
 * store ignores descriptive keywords, and every `format` except date-time.
 */
import type { CelRule } from '../../crds/kind.ts'
import { compileRule } from './cel.ts'
import { StoreError } from './errors.ts'
import { copyJson, freeze, isList, isObject, type JsonObject, type JsonValue, textIn } from './json.ts'
import { type Limits, limitNames, type SchemaNode, types } from './schema-node.ts'

const enforced = new Set<string>([
  ...limitNames,
  'type',
  'required',
  'properties',
  'additionalProperties',
  'items',
  'enum',
  'pattern',
  'format',
  'default',
  'nullable',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'x-kubernetes-int-or-string',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
])
/** Keywords without an effect on validation. */
const descriptive = new Set(['description', 'title', 'example'])

/** @throws StoreError `definition` with the path and the keyword */
export function compileSchema(source: unknown, path: string): SchemaNode {
  return compile(freeze(copyJson(source)), path)
}

function compile(schema: JsonValue, path: string): SchemaNode {
  if (!isObject(schema)) throw new StoreError('definition', `${path}: a schema must be an object`)
  for (const keyword of Object.keys(schema)) {
    if (enforced.has(keyword) || descriptive.has(keyword)) continue
    throw new StoreError('definition', `${path}: the embedded store cannot enforce the schema keyword ${keyword}`)
  }
  const properties = compileProperties(schema, path)
  const items = schema.items === undefined ? undefined : compile(schema.items, `${path}[]`)
  const values = isObject(schema.additionalProperties) ? compile(schema.additionalProperties, `${path}.*`) : undefined
  const rules = rulesOf(schema, path).map(rule => compileRule(rule, path))
  const below = [...properties.values(), ...(items ? [items] : []), ...(values ? [values] : [])]
  return {
    type: types.find(type => type === schema.type),
    intOrString: schema['x-kubernetes-int-or-string'] === true,
    nullable: schema.nullable === true,
    preserveUnknown: schema['x-kubernetes-preserve-unknown-fields'] === true,
    required: textsIn(schema, 'required'),
    properties,
    values,
    items,
    enum: isList(schema.enum) ? schema.enum : undefined,
    pattern: patternOf(schema, path),
    format: textIn(schema, 'format'),
    limits: limitsOf(schema, path),
    default: schema.default,
    listType: listTypeOf(schema),
    listKeys: textsIn(schema, 'x-kubernetes-list-map-keys'),
    atomicMap: schema['x-kubernetes-map-type'] === 'atomic',
    rules,
    hasTransitions: rules.some(rule => rule.transition) || below.some(node => node.hasTransitions),
    hasDefaults: schema.default !== undefined || below.some(node => node.hasDefaults),
  }
}

function compileProperties(schema: JsonObject, path: string): Map<string, SchemaNode> {
  const properties = isObject(schema.properties) ? schema.properties : {}
  return new Map(
    Object.entries(properties).map(([field, child]) => [
      field,
      compile(child, path === '' ? field : `${path}.${field}`),
    ]),
  )
}

const textsIn = (schema: JsonObject, keyword: string): string[] => {
  const list = schema[keyword]
  return isList(list) ? list.filter(item => typeof item === 'string') : []
}

const listTypeOf = (schema: JsonObject): 'atomic' | 'set' | 'map' => {
  const type = schema['x-kubernetes-list-type']
  return type === 'set' || type === 'map' ? type : 'atomic'
}

function patternOf(schema: JsonObject, path: string): SchemaNode['pattern'] {
  const source = textIn(schema, 'pattern')
  if (source === undefined) return undefined
  try {
    return { source, expression: new RegExp(source, 'u') }
  } catch (error) {
    throw new StoreError('definition', `${path}: the pattern ${source} does not compile`, { cause: error })
  }
}

function limitsOf(schema: JsonObject, path: string): Limits {
  if (schema.exclusiveMinimum === true || schema.exclusiveMaximum === true) {
    throw new StoreError('definition', `${path}: the embedded store cannot enforce exclusive limits`)
  }
  return Object.fromEntries(
    limitNames.flatMap(name => (typeof schema[name] === 'number' ? [[name, schema[name]]] : [])),
  )
}

const ruleKeywords = new Set(['rule', 'message', 'fieldPath', 'reason'])

function rulesOf(schema: JsonObject, path: string): CelRule[] {
  const rules = schema['x-kubernetes-validations']
  if (!isList(rules)) return []
  return rules.filter(isObject).map(rule => {
    const unsupported = Object.keys(rule).find(keyword => !ruleKeywords.has(keyword))
    if (unsupported !== undefined) {
      throw new StoreError('definition', `${path}: the embedded store does not support the rule keyword ${unsupported}`)
    }
    const fieldPath = textIn(rule, 'fieldPath')
    const reason = textIn(rule, 'reason')
    const source = textIn(rule, 'rule') ?? ''
    return {
      rule: source,
      message: textIn(rule, 'message') ?? `failed rule: ${source}`,
      ...(fieldPath === undefined ? {} : { fieldPath }),
      ...(reason === undefined ? {} : { reason }),
    }
  })
}
