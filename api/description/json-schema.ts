/**
 * Zod schemas in the description: JSON Schema 2020-12, every named shape a reference, so that generators create usable
 * clients. Input is closed and has every rule; output may gain fields and values over time.
 */
import { z } from 'zod'
import { queryDefault } from '../schemas/common.ts'
import { componentPath, inputComponents, outputComponents } from '../schemas/components.ts'

export type JsonSchema = Record<string, unknown>

type Direction = 'input' | 'output'
const registries = { input: inputComponents, output: outputComponents }

const isSafeIntegerBound = (key: string, value: unknown): boolean =>
  (key === 'maximum' || key === 'minimum') && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER

/** The members of an object, each a schema under its own name, which may be a keyword. */
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

/** `anyOf` a plain type and null, as the one type that OpenAPI 3.1 writes for it. */
function oneType({ anyOf, ...rest }: JsonSchema): JsonSchema {
  const [plain, nothing] = Array.isArray(anyOf) && anyOf.length === 2 ? anyOf : []
  if (typeof plain?.type !== 'string' || nothing?.type !== 'null')
    return anyOf === undefined ? rest : { ...rest, anyOf }
  return { ...plain, ...rest, type: [plain.type, 'null'] }
}

/** The values known today, without refusing others; output has no defaults. */
function open({ enum: values, default: _, ...rest }: JsonSchema): JsonSchema {
  return values === undefined ? rest : { ...rest, 'x-extensible-enum': values }
}

/** A discriminated union has no members of its own. */
function oneOfShapes({ oneOf, discriminator, description, ...rest }: JsonSchema): JsonSchema {
  if (discriminator !== undefined) return { description, oneOf, discriminator, example: rest.example }
  return { ...(description === undefined ? {} : { description }), ...rest, ...(oneOf === undefined ? {} : { oneOf }) }
}

/**
 * The default of a member is moved one level down: there it means the same, and generators do not treat the member as
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

/** Every named shape. If input and output share a name, the input shape is used. */
export function componentSchemas(): Record<string, JsonSchema> {
  const all = (['output', 'input'] as const).flatMap(io => {
    const { schemas } = z.toJSONSchema(registries[io], { io, uri: componentPath, unrepresentable: 'any' })
    return Object.entries(schemas).map(([id, schema]) => {
      const tidied = tidy(schema, io)
      // An object remains an object in both.
      return [id, (io === 'input' ? optional(tidied) : tidied) as JsonSchema] as const
    })
  })
  return Object.fromEntries(all.sort(([left], [right]) => (left < right ? -1 : 1)))
}

/** A reference if the shape has a name, and references to named shapes within it. */
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
