/**
 * The arguments of a tool, declared once as a zod object. The declaration provides the JSON Schema for clients, the
 * check, and the types for the tool.
 */
import { z } from 'zod'
import { ruleOf } from '../../configuration/rule.ts'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { ArgumentsError } from '../core/arguments.ts'

type Texts = { readonly minLength?: 1; readonly maxLength?: number; readonly description?: string }

/** JSON Schema counts a surrogate pair as one character; zod counts two. */
const isWithin = (text: string, most: number) => text.length <= most || [...text].length <= most
const isBlank = (text: string) => text.trim() === ''

/** A text argument, passed to the tool unchanged. */
export const text = ({ minLength = undefined, maxLength = Number.POSITIVE_INFINITY, ...more }: Texts = {}) =>
  z
    .string()
    .refine(value => minLength === undefined || value !== '', { error: 'must not be empty', abort: true })
    .refine(value => isWithin(value, maxLength), `must have at most ${maxLength} characters`)
    .meta({ ...more, minLength, ...(Number.isFinite(maxLength) && { maxLength }) })

/** A text argument that must not be blank. */
export const requiredText = (texts: Texts, problem = 'must not be empty') =>
  text(texts).refine(value => !isBlank(value), problem)

/**
 * An optional text argument. A blank text counts as missing, because some clients send it. `default` is only documented
 * in the schema: the tool itself receives undefined.
 */
export const optionalText = ({ default: meant, ...texts }: Texts & { readonly default?: string } = {}) =>
  text(texts)
    .meta(meant === undefined ? {} : { default: meant })
    .optional()
    .transform(value => (value === undefined || isBlank(value) ? undefined : value))

const ruleOfArgument = (issue: z.core.$ZodRawIssue) =>
  issue.code === 'invalid_type' && issue.input === undefined ? 'is required' : ruleOf(issue)

function errorOf(issue: z.core.$ZodIssue | undefined, known: readonly string[]): ArgumentsError {
  if (issue?.code === 'unrecognized_keys')
    return new ArgumentsError(`${issue.keys[0]} is unknown; known arguments are ${known.join(', ')}`, true)
  const name = issue?.path.map(step => (typeof step === 'number' ? `[${step}]` : String(step))).join('')
  return new ArgumentsError(`${name || 'the arguments'} ${issue?.message}`, issue?.code === 'invalid_type')
}

export function toolInput<Shape extends z.ZodRawShape>(shape: Shape) {
  const object = z.strictObject(shape)
  const { $schema: _, ...schema } = z.toJSONSchema(object, { io: 'input' })
  return {
    /** The JSON Schema of an object has the type "object". */
    schema: schema as JsonSchema,
    /** @throws ArgumentsError */
    read(args: JsonObject): z.output<typeof object> {
      const { data, error } = object.safeParse(args, { error: ruleOfArgument })
      if (error !== undefined) throw errorOf(error.issues[0], Object.keys(shape))
      return data
    },
  }
}
