/**
 * Checks arguments of tools against their JSON Schema (2020-12). A schema is compiled once, into closures. Its keywords are those that schemas of tools
 * are written with: a schema with any other is refused when it is compiled, so that none is ignored unseen. References lead inside the schema only.
 */

import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import { canonical } from './canonical.ts'

/** What is wrong, in words that name the argument and the rule. `isShape`: of its type, or of which arguments there are. */
export type Violation = { readonly problem: string; readonly isShape: boolean }

type Check = (value: unknown, name: string) => Violation | undefined
type Compile = (value: unknown, schema: JsonObject, compiler: Compiler) => Check | undefined
type Compiler = { compile(schema: unknown): Check; resolve(reference: string): Check }

const broken = (problem: string, isShape = false): Violation => ({ problem, isShape })
const own = (object: JsonObject, key: string): unknown => (Object.hasOwn(object, key) ? object[key] : undefined)
const below = (name: string, key: string | number): string =>
  typeof key === 'number' ? `${name}[${key}]` : name === '' ? key : `${name}.${key}`
const named = (name: string): string => (name === '' ? 'the arguments' : name)
const first = <Item>(items: Iterable<Item>, check: (item: Item) => Violation | undefined): Violation | undefined => {
  for (const item of items) {
    const violation = check(item)
    if (violation !== undefined) return violation
  }
  return undefined
}

const isOfType: Record<string, (value: unknown) => boolean> = {
  string: value => typeof value === 'string',
  number: value => typeof value === 'number',
  integer: value => Number.isInteger(value),
  boolean: value => typeof value === 'boolean',
  null: value => value === null,
  array: Array.isArray,
  object: isObject,
}

const asNumber = (value: unknown): number => {
  if (typeof value !== 'number') throw new TypeError('a limit in a schema must be a number')
  return value
}
const asArray = (value: unknown): readonly unknown[] => {
  if (!Array.isArray(value)) throw new TypeError('a list in a schema must be an array')
  return value
}
const asObject = (value: unknown): JsonObject => {
  if (!isObject(value)) throw new TypeError('a part of a schema must be an object')
  return value
}

/** As JSON Schema counts them: a pair of surrogates is one. */
function characters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

/** A rule for values of one type; others are none of its business. */
const forStrings =
  (rule: (length: number, limit: number) => boolean, words: (limit: number) => string): Compile =>
  limit => {
    const bound = asNumber(limit)
    return (value, name) =>
      typeof value !== 'string' || rule(characters(value), bound)
        ? undefined
        : broken(`${named(name)} must have ${words(bound)}`)
  }
const forNumbers =
  (rule: (value: number, limit: number) => boolean, words: string): Compile =>
  limit => {
    const bound = asNumber(limit)
    return (value, name) =>
      typeof value !== 'number' || rule(value, bound) ? undefined : broken(`${named(name)} must be ${words} ${bound}`)
  }
const forArrays =
  (rule: (length: number, limit: number) => boolean, words: (limit: number) => string): Compile =>
  limit => {
    const bound = asNumber(limit)
    return (value, name) =>
      !Array.isArray(value) || rule(value.length, bound)
        ? undefined
        : broken(`${named(name)} must have ${words(bound)}`)
  }
const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
/** Says something, and checks nothing. */
const annotation: Compile = () => undefined
/** Checked together with a neighbour. */
const withNeighbour: Compile = () => undefined

const keywords: Record<string, Compile> = {
  $schema: annotation,
  $id: annotation,
  $anchor: annotation,
  $comment: annotation,
  $defs: annotation,
  title: annotation,
  description: annotation,
  default: annotation,
  examples: annotation,
  deprecated: annotation,
  format: annotation,
  'x-mcp-header': annotation,
  // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
  then: withNeighbour,
  else: withNeighbour,
  $ref: (reference, _, { resolve }) => {
    let check: Check | undefined
    // Only when there is a value: a schema may refer to itself.
    return (value, name) => {
      check ??= resolve(String(reference))
      return check(value, name)
    }
  },
  type: type => {
    const types = typeof type === 'string' ? [type] : asArray(type).map(String)
    const checks = types.map(one => isOfType[one] ?? (() => false))
    const words = types.map(one => (/^[aio]/.test(one) ? `an ${one}` : one === 'null' ? one : `a ${one}`)).join(' or ')
    return (value, name) =>
      checks.some(check => check(value)) ? undefined : broken(`${named(name)} must be ${words}`, true)
  },
  enum: list => {
    const values = asArray(list)
    const known = new Set(values.map(canonical))
    const words = values.map(value => JSON.stringify(value)).join(', ')
    return (value, name) => (known.has(canonical(value)) ? undefined : broken(`${named(name)} must be one of ${words}`))
  },
  const: constant => {
    const known = canonical(constant)
    return (value, name) => (canonical(value) === known ? undefined : broken(`${named(name)} must be ${known}`))
  },
  required: list => {
    const keys = asArray(list).map(String)
    return (value, name) => {
      if (!isObject(value)) return undefined
      const missing = keys.find(key => own(value, key) === undefined)
      return missing === undefined ? undefined : broken(`${below(name, missing)} is required`, true)
    }
  },
  properties: (properties, _, { compile }) => {
    const checks = Object.entries(asObject(properties)).map(([key, schema]) => [key, compile(schema)] as const)
    return (value, name) =>
      isObject(value)
        ? first(checks, ([key, check]) => {
            const one = own(value, key)
            return one === undefined ? undefined : check(one, below(name, key))
          })
        : undefined
  },
  additionalProperties: (schema, { properties = {} }, { compile }) => {
    const known = new Set(Object.keys(asObject(properties)))
    const words = known.size === 0 ? 'none are taken' : `known are ${[...known].join(', ')}`
    const check: Check = schema === false ? (_, name) => broken(`${name} is unknown; ${words}`, true) : compile(schema)
    return (value, name) =>
      isObject(value)
        ? first(Object.keys(value), key => (known.has(key) ? undefined : check(value[key], below(name, key))))
        : undefined
  },
  minProperties: limit => {
    const bound = asNumber(limit)
    return (value, name) =>
      !isObject(value) || Object.keys(value).length >= bound
        ? undefined
        : broken(`${named(name)} must have at least ${plural(bound, 'member')}`)
  },
  items: (schema, { prefixItems = [] }, { compile }) => {
    const check = compile(schema)
    const from = asArray(prefixItems).length
    return (value, name) =>
      Array.isArray(value)
        ? first(value.slice(from).entries(), ([index, one]) => check(one, below(name, from + index)))
        : undefined
  },
  prefixItems: (schemas, _, { compile }) => {
    const checks = asArray(schemas).map(compile)
    return (value, name) =>
      Array.isArray(value)
        ? first(checks.slice(0, value.length).entries(), ([index, check]) => check(value[index], below(name, index)))
        : undefined
  },
  uniqueItems: isWanted => (value, name) =>
    isWanted !== true || !Array.isArray(value) || new Set(value.map(canonical)).size === value.length
      ? undefined
      : broken(`${named(name)} must not have an item twice`),
  minItems: forArrays(
    (length, limit) => length >= limit,
    limit => `at least ${plural(limit, 'item')}`,
  ),
  maxItems: forArrays(
    (length, limit) => length <= limit,
    limit => `at most ${plural(limit, 'item')}`,
  ),
  minLength: forStrings(
    (length, limit) => length >= limit,
    limit => (limit === 1 ? 'text in it: it is empty' : `at least ${plural(limit, 'character')}`),
  ),
  maxLength: forStrings(
    (length, limit) => length <= limit,
    limit => `at most ${plural(limit, 'character')}`,
  ),
  pattern: text => {
    const pattern = new RegExp(String(text), 'u')
    return (value, name) =>
      typeof value !== 'string' || pattern.test(value)
        ? undefined
        : broken(`${named(name)} must match ${pattern.source}`)
  },
  minimum: forNumbers((value, limit) => value >= limit, 'at least'),
  maximum: forNumbers((value, limit) => value <= limit, 'at most'),
  exclusiveMinimum: forNumbers((value, limit) => value > limit, 'more than'),
  exclusiveMaximum: forNumbers((value, limit) => value < limit, 'less than'),
  multipleOf: forNumbers((value, factor) => Number.isInteger(value / factor), 'a multiple of'),
  allOf: (schemas, _, { compile }) => {
    const checks = asArray(schemas).map(compile)
    return (value, name) => first(checks, check => check(value, name))
  },
  anyOf: (schemas, _, { compile }) => {
    const checks = asArray(schemas).map(compile)
    return (value, name) => {
      const violations = checks.map(check => check(value, name))
      if (violations.includes(undefined)) return undefined
      return broken(violations.map(violation => violation?.problem).join(', or '))
    }
  },
  oneOf: (schemas, _, { compile }) => {
    const checks = asArray(schemas).map(compile)
    return (value, name) => {
      const fitting = checks.filter(check => check(value, name) === undefined).length
      return fitting === 1 ? undefined : broken(`${named(name)} must fit exactly one of ${checks.length} schemas`)
    }
  },
  not: (schema, _, { compile }) => {
    const check = compile(schema)
    return (value, name) =>
      check(value, name) === undefined ? broken(`${named(name)} has what its schema excludes`) : undefined
  },
  if: (schema, { then: thenSchema, else: elseSchema }, { compile }) => {
    const test = compile(schema)
    const [yes, no] = [compile(thenSchema ?? true), compile(elseSchema ?? true)]
    return (value, name) => (test(value, name) === undefined ? yes : no)(value, name)
  },
}

function partAt(root: JsonObject, reference: string): unknown {
  if (reference === '#') return root
  if (reference.startsWith('#/')) {
    const steps = reference.slice(2).split('/')
    return steps
      .map(step => decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>((part, step) => (isObject(part) ? own(part, step) : undefined), root)
  }
  return Object.values(asObject(root.$defs ?? {})).find(part => isObject(part) && `#${part.$anchor}` === reference)
}

/** @throws TypeError where the schema has a keyword that is not known, or is none */
export function compileSchema(root: JsonSchema): (args: JsonObject) => Violation | undefined {
  const compiler: Compiler = {
    compile: schema => {
      if (typeof schema === 'boolean')
        return (_, name) => (schema ? undefined : broken(`${named(name)} is not allowed`, true))
      const checks = Object.entries(asObject(schema)).flatMap(([keyword, value]) => {
        const compile = Object.hasOwn(keywords, keyword) ? keywords[keyword] : undefined
        if (compile === undefined) throw new TypeError(`the keyword ${keyword} of a schema is not known`)
        return compile(value, asObject(schema), compiler) ?? []
      })
      return (value, name) => first(checks, check => check(value, name))
    },
    resolve: reference => {
      const part = partAt(root, reference)
      if (part === undefined) throw new TypeError(`the reference ${reference} leads nowhere inside its schema`)
      return compiler.compile(part)
    },
  }
  const check = compiler.compile(root)
  return args => check(args, '')
}
