/**
 * Checks input against its zod schema and reports faults as `field: rule`, for example `ip_allowlist.rules[3].cidr:
 * must be an IPv4 address or CIDR block`. Errors never contain values, because a value may be a secret.
 */
import { z } from 'zod'
import { ApiError, badRequest } from './errors.ts'

/** How many faults a response lists. */
const listed = 5

const plural = (count: number | bigint, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
}

const formatRules: Record<string, string> = {
  datetime: 'must be an RFC 3339 date and time, for example 2026-01-31T12:00:00Z',
}

function sizeRule(issue: { origin: string; minimum?: unknown; maximum?: unknown }): string {
  const [bound, side] = issue.maximum === undefined ? [issue.minimum, 'least'] : [issue.maximum, 'most']
  const number = Number(bound)
  if (issue.origin === 'string') return `must be at ${side} ${plural(number, 'character')} long`
  if (issue.origin === 'array') return `must have at ${side} ${plural(number, 'item')}`
  return `must be at ${side} ${number}`
}

/** Lists the allowed values. If they are strings and the input is not, also reports the type: 17 is not "17". */
function choices(values: readonly unknown[], input: unknown): string {
  const kind = typeof values[0] === 'string' && typeof input !== 'string' ? 'a string, ' : ''
  return `${kind}${values.length > 1 ? 'one of ' : ''}${values.map(String).join(', ')}`
}

/** Returns the violated rule as words that follow a field's name. A message in a schema is used unchanged. */
function ruleOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${typeNames[issue.expected] ?? `a ${issue.expected}`}`
    case 'too_big':
    case 'too_small':
      return sizeRule(issue)
    case 'invalid_value':
      return issue.input === undefined ? 'is required' : `must be ${choices(issue.values, issue.input)}`
    case 'invalid_format':
      return formatRules[issue.format] ?? `must match ${issue.pattern ?? issue.format}`
    case 'unrecognized_keys':
      return 'unknown field'
    default:
      return undefined
  }
}

/** In a query, a parameter with an array value occurred twice. */
function ruleOfQuery(issue: z.core.$ZodRawIssue): string | undefined {
  if (Array.isArray(issue.input) && issue.code !== 'unrecognized_keys') return 'must occur only once'
  // All query values are text, so "must be an integer" alone would confuse the client.
  if (issue.code === 'invalid_type' && typeof issue.input === 'string' && isNumeric(issue.expected))
    return 'must be a whole number, in digits'
  return ruleOf(issue)
}
const isNumeric = (expected: string): boolean => expected === 'number' || expected === 'int'

const plainKey = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/

const quoted = (key: PropertyKey): string => `[${JSON.stringify(String(key).slice(0, 64))}]`

/** Renders `['rules', 3, 'cidr']` as `rules[3].cidr`. Quotes and truncates a name that is not an identifier. */
export function renderPath(path: readonly PropertyKey[]): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (plainKey.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`
    else text += quoted(step)
  }
  return text
}

/** Brackets are part of a parameter's name, for example `limit[]`. */
const plainParameter = /^[A-Za-z_][A-Za-z0-9_.[\]-]{0,63}$/

/** Renders a parameter with the name that the client sent. An entry in a list of values has no name of its own. */
function renderParameter([name]: readonly PropertyKey[]): string {
  if (name === undefined) return ''
  return plainParameter.test(String(name)) ? String(name) : quoted(name)
}

/**
 * Describes the first few issues in one line, separated by `; `. `part`: the name of the input if the input itself is
 * invalid.
 */
function describeIssues(issues: readonly z.core.$ZodIssue[], part: string): string {
  const render = part === 'query' ? renderParameter : renderPath
  const faults = issues.flatMap(issue =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map(key => `${render([...issue.path, key])}: unknown field`)
      : [`${render(issue.path) || part}: ${issue.message}`],
  )
  const rest = faults.length - listed
  return faults.slice(0, listed).join('; ') + (rest > 0 ? `; and ${rest} more` : '')
}

/** Returns the schema's output for the input. @throws ApiError 400 with each field and its rule */
export function validate<S extends z.ZodType>(schema: S, input: unknown, part: string): z.output<S> {
  const result = schema.safeParse(input, { error: part === 'query' ? ruleOfQuery : ruleOf })
  if (result.success) return result.data
  throw badRequest(describeIssues(result.error.issues, part))
}

const noBody = z.strictObject({}).optional()

/**
 * Refuses a body for an operation without a body. A client that sends `{"keep_backups": true}` with a DELETE must learn
 * that the API would ignore it.
 * @throws ApiError 400 with the name of each member
 */
export function refuseBody({ body }: { body: unknown }): void {
  validate(noBody, body ?? undefined, 'body')
}

const partNames: Record<string, string> = { body: 'body', querystring: 'query', params: 'path', headers: 'headers' }

/** Fastify's validator compiler. Each schema has one check, and errors are ApiErrors. */
export const validatorCompiler = ({ schema, httpPart }: { schema: z.ZodType; httpPart?: string | undefined }) => {
  const part = partNames[httpPart ?? 'body'] ?? 'body'
  const check = (input: unknown): { value: unknown } | { error: Error } => {
    try {
      // Fastify passes null for a missing body.
      return { value: validate(schema, input ?? undefined, part) }
    } catch (error) {
      if (error instanceof ApiError) return { error }
      throw error
    }
  }
  if (httpPart !== 'querystring') return check
  // Most requests have no query, so the result for an empty query is computed once.
  const ofNone = check({})
  return (input: unknown) => (isEmpty(input) ? ofNone : check(input))
}

function isEmpty(input: unknown): boolean {
  for (const _ in input as object) return false
  return true
}
