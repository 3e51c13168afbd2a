/** For tests: a hand-written schema cache, and a check of a document's structure against OpenAPI 2.0. */
import type { Cardinality, Column, Parameter, Relationship, Routine, Table } from '../../schema-cache/types.ts'
import { type OpenApi2Input, renderOpenApi2 } from '../description/openapi-2/document.ts'

export function column(name: string, type: string, more: Partial<Column> = {}): Column {
  const plain = { description: null, nullable: true, maximumLength: null, default: null, generated: false }
  return { name, baseType: type, type, enumValues: [], ...plain, ...more }
}

export function table(name: string, columns: Column[], more: Partial<Table> = {}): Table {
  const writable = { insertable: true, updatable: true, deletable: true }
  const byName = new Map(columns.map(each => [each.name, each]))
  return {
    schema: 'test',
    name,
    description: null,
    isView: false,
    primaryKey: [],
    columns: byName,
    ...writable,
    ...more,
  }
}

export function parameter(name: string, type: string, more: Partial<Parameter> = {}): Parameter {
  return { name, type, castType: type, required: true, variadic: false, ...more }
}

export function routine(name: string, parameters: Parameter[], more: Partial<Routine> = {}): Routine {
  return {
    schema: 'test',
    name,
    description: null,
    parameters,
    returns: { kind: 'scalar', type: { schema: 'pg_catalog', name: 'text' } },
    returnsSet: false,
    returnsVoid: false,
    volatility: 'stable',
    variadic: parameters.some(({ variadic }) => variadic),
    isolationLevel: null,
    settings: [],
    ...more,
  }
}

export function toOne(source: string, target: string, columns: [string, string][]): Relationship {
  return keys(source, target, { kind: 'many-to-one', constraint: `${source}_${target}`, columns })
}

export function keys(source: string, target: string, cardinality: Cardinality): Relationship {
  return {
    kind: 'keys',
    source: { schema: 'test', name: source },
    target: { schema: 'test', name: target },
    self: source === target,
    cardinality,
    sourceIsView: false,
    targetIsView: false,
  }
}

/** A cache's relationships, by source. */
export function relationships(...list: Relationship[]): OpenApi2Input['cache'] {
  return {
    relationships: new Map([['test', Map.groupBy(list, ({ source }) => source.name)]]),
    representations: new Map(),
  }
}

/** The input of a document. A test sets only some parts. */
export type Parts = Partial<OpenApi2Input & Omit<OpenApi2Input['schema'], 'name'>>

function input({ comment = null, tables = [], routines = [], ...more }: Parts = {}): OpenApi2Input {
  return {
    cache: relationships(),
    schema: { name: 'test', comment, tables, routines },
    proxyUri: undefined,
    securityActive: false,
    extraSearchPath: [],
    host: '*4',
    port: 3000,
    version: '1.2.3',
    ...more,
  }
}

type Document = { [key: string]: unknown }

/** The document as a client reads it. */
export const rendered = (more: Parts): Document => JSON.parse(JSON.stringify(renderOpenApi2(input(more))))

const isObject = (value: unknown): value is Document =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value at a path of keys. Undefined if there is no value. */
export function at(value: unknown, ...path: (string | number)[]): unknown {
  let here = value
  for (const key of path) {
    if (Array.isArray(here) && typeof key === 'number') here = here[key]
    else if (isObject(here) && Object.hasOwn(here, key)) here = here[key]
    else return undefined
  }
  return here
}

const entries = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])

/**
 * Follows a reference as a client does: first decodes the URI fragment, then the JSON pointer (RFC 6901). Undefined if
 * the reference has no target.
 */
function resolve(document: unknown, reference: string): unknown {
  const [hash, ...keys] = decodeURIComponent(reference).split('/')
  return hash === '#' ? at(document, ...keys.map(key => key.replaceAll('~1', '/').replaceAll('~0', '~'))) : undefined
}

function* faultsOfReferences(document: Document, value: unknown, where: string): Generator<string> {
  if (Array.isArray(value))
    for (const [index, item] of value.entries()) yield* faultsOfReferences(document, item, `${where}/${index}`)
  if (!isObject(value)) return
  if (typeof value.$ref === 'string' && resolve(document, value.$ref) === undefined)
    yield `${where} leads nowhere: ${value.$ref}`
  for (const [key, item] of Object.entries(value)) yield* faultsOfReferences(document, item, `${where}/${key}`)
}

const dataTypes: unknown[] = ['string', 'number', 'integer', 'boolean', 'array']

function* faultsOfLists(value: Document, where: string): Generator<string> {
  for (const key of ['enum', 'required', 'tags', 'schemes', 'produces', 'consumes']) {
    if (!Array.isArray(value[key])) continue
    if (value[key].length === 0) yield `${where}: ${key} is empty`
    if (new Set(value[key]).size < value[key].length) yield `${where}: ${key} repeats itself`
  }
}

function* faultsOfParameter(value: unknown, where: string): Generator<string> {
  if (!isObject(value)) return yield `${where} is no object`
  yield* faultsOfLists(value, where)
  if (typeof value.name !== 'string') yield `${where} has no name`
  if (value.in === 'body') {
    if (!isObject(value.schema)) yield `${where} has no schema`
    if (value.type !== undefined) yield `${where} has a type, and is a body`
    return yield* faultsOfSchema(value.schema, where)
  }
  if (value.in !== 'query' && value.in !== 'header') yield `${where} is in ${String(value.in)}`
  if (value.schema !== undefined) yield `${where} has a schema, and is no body`
  if (!dataTypes.includes(value.type)) yield `${where} has the type ${String(value.type)}`
  if (value.type === 'array' && !dataTypes.includes(at(value, 'items', 'type'))) yield `${where} has no type of items`
  if (value.type !== 'array' && (value.items ?? value.collectionFormat) !== undefined) yield `${where} is no array`
}

function* faultsOfSchema(value: unknown, where: string): Generator<string> {
  if (!isObject(value)) return yield `${where} is no object`
  yield* faultsOfLists(value, where)
  for (const name of list(value.required)) {
    if (at(value, 'properties', String(name)) === undefined) yield `${where} wants ${String(name)}, which it has not`
  }
  for (const [name, property] of entries(value.properties)) {
    const type = at(property, 'type')
    if (type !== undefined && !dataTypes.includes(type)) yield `${where}/${name} has the type ${String(type)}`
    if (isObject(property)) yield* faultsOfLists(property, `${where}/${name}`)
    if (type === 'array' && !isObject(at(property, 'items'))) yield `${where}/${name} has no items`
  }
}

function* faultsOfOperation(document: Document, operation: unknown, where: string): Generator<string> {
  if (!isObject(operation)) return yield `${where} is no object`
  yield* faultsOfLists(operation, where)
  const responses = entries(operation.responses)
  if (responses.length === 0) yield `${where} has no responses`
  for (const [status, response] of responses) {
    if (!/^[1-5]\d\d$/.test(status)) yield `${where} answers ${status}`
    if (typeof at(response, 'description') !== 'string') yield `${where}: ${status} has no description`
  }
  const seen = new Set<string>()
  for (const each of list(operation.parameters)) {
    const reference = at(each, '$ref')
    const found = typeof reference === 'string' ? resolve(document, reference) : each
    yield* faultsOfParameter(found, where)
    const key = at(found, 'in') === 'body' ? 'body' : `${String(at(found, 'in'))} ${String(at(found, 'name'))}`
    if (seen.has(key)) yield `${where} takes ${key} twice`
    seen.add(key)
  }
}

/** All violations of the OpenAPI Specification 2.0, in the parts that the service writes. */
export function faults(document: Document): string[] {
  const found = [...faultsOfReferences(document, document, '#'), ...faultsOfLists(document, '#')]
  if (document.swagger !== '2.0') found.push('swagger is not 2.0')
  for (const key of ['title', 'version']) {
    if (typeof at(document, 'info', key) !== 'string') found.push(`info has no ${key}`)
  }
  const { host } = document
  if (host !== undefined && !(typeof host === 'string' && /^[^{}/ :\\]+:\d+$/.test(host)))
    found.push(`host is ${String(host)}`)
  if (!String(document.basePath).startsWith('/')) found.push('basePath is not absolute')
  for (const [path, item] of entries(document.paths)) {
    if (!path.startsWith('/')) found.push(`${path} is not absolute`)
    for (const [method, operation] of entries(item)) {
      if (!['get', 'post', 'patch', 'delete'].includes(method)) found.push(`${path} has ${method}`)
      found.push(...faultsOfOperation(document, operation, `${method} ${path}`))
    }
  }
  for (const [name, schema] of entries(document.definitions)) found.push(...faultsOfSchema(schema, name))
  for (const [name, value] of entries(document.parameters)) found.push(...faultsOfParameter(value, name))
  return found
}
