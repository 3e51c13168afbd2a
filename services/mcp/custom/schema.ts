/** The schema of a file of custom definitions: prompts, resources and tools, each with limits. */
import { z } from 'zod'
import { durationMs } from '../../configuration/duration.ts'
import type { JsonSchema } from '../../mcp-protocol/json.ts'
import { prompts as builtinPrompts } from '../prompts/index.ts'
import { argumentsCheck } from './arguments.ts'
import { reservedToolNames } from './reserved.ts'

const mostOfAKind = 100
const mostArguments = 50
const longestText = 65_536
const longestData = 262_144
const longestSchema = 16_384

const oneLine = (most: number) =>
  z
    .string()
    .min(1)
    .max(most)
    .refine(text => !/\p{Cc}/u.test(text), 'must not have control characters')
const longText = z.string().min(1).max(longestText)
const description = z.string().max(2_000)
const identifier = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, 'must be 1 to 63 letters, digits and _')
const name = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, 'must be 1 to 64 letters, digits and _ . -')
const promptName = name.refine(
  own => !builtinPrompts.some(({ definition }) => definition.name === own),
  'is the name of a prompt of the server',
)
const toolName = name.refine(own => !reservedToolNames.includes(own), 'is the name of a tool of the server')
const ownUri = z
  .string()
  .max(1_024)
  .regex(
    /^(?!pg:)[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/,
    'must be a URI such as custom://name, and must not have the scheme pg',
  )
const mimeType = oneLine(100)

const content = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: longText }),
  z.strictObject({ type: z.literal('image'), data: z.base64().min(1).max(longestData), mimeType }),
  z.strictObject({ type: z.literal('resource'), uri: oneLine(1_024), mimeType: mimeType.optional(), text: longText }),
])

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g
const templatesOf = (one: z.infer<typeof content>): readonly string[] =>
  one.type === 'text' ? [one.text] : one.type === 'resource' ? [one.uri, one.text] : []

const prompt = z
  .strictObject({
    name: promptName,
    description: description.optional(),
    arguments: z
      .array(
        z.strictObject({
          name: identifier,
          description: description.optional(),
          required: z.boolean().default(false),
          type: z.enum(['string', 'boolean']).default('string'),
        }),
      )
      .max(mostArguments)
      .default([]),
    messages: z
      .array(z.strictObject({ role: z.enum(['user', 'assistant']), content }))
      .min(1)
      .max(50),
  })
  .superRefine(({ arguments: declared, messages }, refinement) => {
    const known = new Set(declared.map(one => one.name))
    for (const [index, message] of messages.entries())
      for (const template of templatesOf(message.content))
        for (const [, used = ''] of template.matchAll(placeholder))
          if (!known.has(used))
            refinement.addIssue({
              code: 'custom',
              path: ['messages', index, 'content'],
              message: `uses {{${used.slice(0, 100)}}}, which is not among the arguments`,
            })
  })

const resourceParts = {
  uri: ownUri,
  name: oneLine(100),
  description: description.optional(),
  mimeType: mimeType.optional(),
}
const resource = z.discriminatedUnion('type', [
  z.strictObject({ ...resourceParts, type: z.literal('sql'), sql: longText }),
  z.strictObject({
    ...resourceParts,
    type: z.literal('static'),
    data: z
      .json()
      .refine(
        data => JSON.stringify(data).length <= longestData,
        `must have at most ${longestData} characters as JSON`,
      ),
  }),
])

const property = z.looseObject({
  type: z.enum(['string', 'integer', 'number', 'boolean', 'array', 'object']),
  description: description.optional(),
})

const inputSchema = z
  .looseObject({
    type: z.literal('object').default('object'),
    properties: z
      .record(identifier, z.union([property, z.looseObject({ $ref: z.string() })], 'must have a type of JSON Schema'))
      .default({})
      .refine(all => Object.keys(all).length <= mostArguments, `must have at most ${mostArguments} properties`),
    required: z.array(z.string()).default([]),
  })
  .superRefine((schema, refinement) => {
    const refuse = (message: string, path: string[] = []) => refinement.addIssue({ code: 'custom', path, message })
    if (JSON.stringify(schema).length > longestSchema)
      return refuse(`must have at most ${longestSchema} characters as JSON`)
    for (const one of schema.required)
      if (!Object.hasOwn(schema.properties, one))
        refuse(`names ${one.slice(0, 63)}, which is not among the properties`, ['required'])
    try {
      argumentsCheck(schema as JsonSchema) // an object with the type "object", parsed from the file
    } catch (error) {
      refuse(`is not a supported schema: ${error instanceof Error ? error.message : String(error)}`)
    }
  })
  .transform(schema => ({ additionalProperties: false, ...schema }) as JsonSchema & typeof schema)

const toolParts = {
  name: toolName,
  description: description.optional(),
  input_schema: inputSchema,
  timeout: z
    .string()
    .default('30s')
    .transform(durationMs)
    .refine(ms => ms >= 100 && ms <= 3_600_000, 'must be a time like 500ms, 30s or 5m, from 100 ms to 1h'),
}
const plParts = {
  language: z.literal('plpgsql', 'must be "plpgsql": other languages are not supported'),
  code: longText,
}
const tool = z.discriminatedUnion('type', [
  z.strictObject({ ...toolParts, type: z.literal('sql'), sql: longText }),
  z.strictObject({ ...toolParts, type: z.literal('pl-do'), ...plParts }),
  z.strictObject({
    ...toolParts,
    type: z.literal('pl-func'),
    ...plParts,
    returns: z.string().regex(/^[\w\s(),."[\]]{1,500}$/, 'must be an SQL type, or TABLE(name type, ...)'),
  }),
])

const list = <Item extends z.ZodType>(item: Item) => z.array(item).max(mostOfAKind).default([])

export const definitionsFile = z.strictObject({ prompts: list(prompt), resources: list(resource), tools: list(tool) })

/** The keys that must be unique within a list, by the list's path; `*` is any index. */
const identities = [
  [['prompts'], 'name'],
  [['prompts', '*', 'arguments'], 'name'],
  [['resources'], 'uri'],
  [['tools'], 'name'],
] as const

const valueAt = (value: unknown, key: string | number): unknown =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === String(key))?.[1]
    : undefined

function listsAt(
  value: unknown,
  path: readonly string[],
  at: readonly (string | number)[],
): (readonly [readonly (string | number)[], readonly unknown[]])[] {
  const [step, ...rest] = path
  if (step === undefined) return Array.isArray(value) ? [[at, value]] : []
  if (step !== '*') return listsAt(valueAt(value, step), rest, [...at, step])
  return Array.isArray(value) ? value.flatMap((one, index) => listsAt(one, rest, [...at, index])) : []
}

/** Paths of duplicate names. The file may have other errors. */
export const repeatedIn = (value: unknown): readonly (readonly (string | number)[])[] =>
  identities.flatMap(([path, field]) =>
    listsAt(value, path, []).flatMap(([at, items]) => {
      const seen = new Set<string>()
      return items.flatMap((item, index) => {
        const name = valueAt(item, field)
        if (typeof name !== 'string') return []
        const isRepeated = seen.has(name)
        seen.add(name)
        return isRepeated ? [[...at, index, field]] : []
      })
    }),
  )

export type PromptDefinition = z.infer<typeof prompt>
export type ResourceDefinition = z.infer<typeof resource>
export type CustomToolDefinition = z.infer<typeof tool>

/** Replaces each `{{name}}` once. Does not replace placeholders inside values. */
export const filled = (template: string, values: { readonly [name: string]: string }): string =>
  template.replace(placeholder, (_, key: string) => values[key] ?? '')
