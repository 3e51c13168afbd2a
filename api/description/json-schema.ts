/**
 * Converts Zod schemas to JSON Schema 2020-12 for the API description. Every named shape becomes a reference, so that
 * generators create usable clients. Input schemas are closed and have every rule. Output may gain fields and values
 * over time.
 */
import { z } from 'zod'
import { queryDefault } from '../schemas/common.ts'
import { componentPath, inputComponents, outputComponents } from '../schemas/components.ts'

export type JsonSchema = Record<string, unknown>

type Direction = 'input' | 'output'
const registries = { input: inputComponents, output: outputComponents }

const isSafeIntegerBound = (key: string, value: unknown): boolean =>
  (key === 'maximum' || key === 'minimum') && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER

/** Changes each member of an object. A member's name may be a keyword of JSON Schema. */
const eachMember = (members: unknown, change: (member: unknown) => unknown): JsonSchema =>
  Object.fromEntries(Object.entries(members ?? {}).map(([name, member]) => [name, change(member)]))

/**
 * Converts to OpenAPI's form: removes "safe integer" bounds and patterns that repeat a format, writes a nullable type
 * as one type, and adds the default of a parameter that arrives as text (see `queryDefault`).
 */
function tidy(node: unknown, io: Direction): unknown {
  if (Array.isArray(node)) return node.map(inner => tidy(inner, io))
  if (typeof node !== 'object' || node === null) return node
  const result: JsonSchema = {}
  for (const [key, value] of Object.entries(node)) {
    const isIdentity = key === '$schema' || key === '$id' || (key === 'id' && typeof value === 'string')
    const isClosure = io === 'output' && key === 'additionalProperties' && value === false
    if (isIdentity || isClosure || isSafeIntegerBound(key, value) || (key === 'pattern' && 'format' in node)) continue
    if (key === queryDefault) result.default = value
    else if (key === 'properties') result.properties = eachMember(value, member => tidy(member, io))
    else result[key] = key === 'example' ? value : tidy(value, io)
  }
  return io === 'output' ? open(oneType(result)) : oneOfShapes(oneType(result))
}

/** Converts `anyOf` with a plain type and null to the single type of OpenAPI 3.1. */
function oneType({ anyOf, ...rest }: JsonSchema): JsonSchema {
  const [plain, nothing] = Array.isArray(anyOf) && anyOf.length === 2 ? anyOf : []
  if (typeof plain?.type !== 'string' || nothing?.type !== 'null')
    return anyOf === undefined ? rest : { ...rest, anyOf }
  return { ...plain, ...rest, type: [plain.type, 'null'] }
}

/** Lists the values known today, but does not refuse other values. Output has no defaults. */
function open({ enum: values, default: _, ...rest }: JsonSchema): JsonSchema {
  return values === undefined ? rest : { ...rest, 'x-extensible-enum': values }
}

/** A discriminated union has no members of its own. */
function oneOfShapes({ oneOf, discriminator, description, ...rest }: JsonSchema): JsonSchema {
  if (discriminator !== undefined) return { description, oneOf, discriminator, example: rest.example }
  return { ...(description === undefined ? {} : { description }), ...rest, ...(oneOf === undefined ? {} : { oneOf }) }
}

/**
 * Moves the default of a member one level down. There it means the same, but generators do not treat the member as
 * required in requests.
 */
function optional(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(optional)
  if (typeof node !== 'object' || node === null) return node
  const { default: value, ...rest }: JsonSchema = Object.fromEntries(
    Object.entries(node).map(([key, inner]) => {
      if (key === 'properties') return [key, eachMember(inner, optional)]
      return [key, key === 'example' ? inner : optional(inner)]
    }),
  )
  if (value === undefined) return rest
  const description = `${rest.description ?? ''} Omitted: ${value}.`.trim()
  return { ...rest, description, allOf: [{ type: rest.type, default: value }] }
}

/** Returns all named shapes. If input and output share a name, uses the input shape. */
export function componentSchemas(): Record<string, JsonSchema> {
  const all = (['output', 'input'] as const).flatMap(io => {
    const { schemas } = z.toJSONSchema(registries[io], { io, uri: componentPath, unrepresentable: 'any' })
    return Object.entries(schemas).map(([id, schema]) => {
      const tidied = tidy(schema, io)
      // Each function returns an object for an object.
      return [id, (io === 'input' ? optional(tidied) : tidied) as JsonSchema] as const
    })
  })
  return Object.fromEntries(all.sort(([left], [right]) => (left < right ? -1 : 1)))
}

/** Returns a reference if the shape has a name. Named shapes inside it become references too. */
export function schemaOf(shape: z.ZodType, io: Direction): JsonSchema {
  const registry = registries[io]
  const schema = z.toJSONSchema(shape, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const id = registry.get(zodSchema)?.id
      if (id === undefined) return
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key]
      jsonSchema.$ref = componentPath(id)
    },
  })
  // An object, as zod returns it.
  return tidy(schema, io) as JsonSchema
}
