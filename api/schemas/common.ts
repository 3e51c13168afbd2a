/** Parts that the shapes of all resources share: ids, times, query parameters, errors. */
import { z } from 'zod'
import { timestamp, uuid } from '../../crds/index.ts'
import { refusalReasons } from '../errors.ts'
import { input, output } from './components.ts'

/** A filter by text. A name that does not exist matches nothing. */
export const queryText = z.string()

const listOf = (text: unknown): unknown => [text].flat().flatMap(part => String(part).split(','))

/** A parameter that a client repeats, or sends once with commas. */
export const queryList = <T extends z.ZodType>(item: T) => z.preprocess(listOf, z.array(item))

/** Ignores letter case on input (RFC 9562, section 4). Ids are stored in lower case. */
const lowerCase = (text: unknown): unknown => (typeof text === 'string' ? text.toLowerCase() : text)
export const id = z.preprocess(lowerCase, uuid.meta({ format: 'uuid' }))

/** Path parameters of one object, `/managed/v1/<resource>/{id}`. */
export const idParameter = z.strictObject({ id: id.describe('The id of the object, a UUID.') })

/** An id in a response. */
export const idText = z.string().meta({ format: 'uuid' })

/** A date and time in a response. The type is plain text, because responses are not checked again. */
export const time = z.string().meta({ format: 'date-time' })

/** A date and time in a request: the T and Z of RFC 3339 may be lower case (section 5.6). */
const capitals = (text: unknown): unknown => (typeof text === 'string' ? text.toUpperCase() : text)
export const inputTime = z.preprocess(capitals, timestamp)

/** A `+` in a query is decoded as a space. In an unencoded offset, the space is converted back. */
const plusOfOffset = (text: unknown): unknown =>
  typeof text === 'string' ? text.replace(/ (?=\d\d:\d\d$)/, '+') : text
export const queryTime = z.preprocess(plusOfOffset, inputTime)

/**
 * A response field that a client may send back: accepted at any size, and ignored. `as`: the field's type in a
 * response.
 */
export const ignored = (description: string, as: Record<string, unknown> = {}) =>
  z
    .unknown()
    .optional()
    .transform(() => undefined)
    .meta({ readOnly: true, description, ...as })

/** A number with more digits than its precision allows is out of every range, and is reported as such. */
const numberOf = (text: unknown): unknown =>
  typeof text === 'string' && /^-?[0-9]+$/.test(text)
    ? Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
    : text
const booleanOf = (text: unknown): unknown => (text === 'true' ? true : text === 'false' ? false : text)

/**
 * Zod does not keep the default of a value that is parsed from text. This name carries the default into the API
 * description.
 */
export const queryDefault = 'x-default'

/** Parses query parameters, which arrive as text, strictly: `limit=10`, never `limit=ten` or `limit=1e1`. */
const queryInteger = (minimum: number, maximum: number, fallback: number) =>
  z
    .preprocess(numberOf, z.int().min(minimum).max(maximum))
    .default(fallback)
    .meta({ [queryDefault]: fallback })
/** A number in a path. */
export const pathInteger = z.preprocess(numberOf, z.int().min(1))
/** The limit of a list. A higher limit is reduced to the maximum, and `X-Applied-Limit` returns the applied limit. */
export const queryLimit = (most: number, fallback: number) =>
  z
    .preprocess(text => {
      const number = numberOf(text)
      return typeof number === 'number' ? Math.min(number, most) : number
    }, z.int().min(1))
    .default(fallback)
    .meta({ [queryDefault]: fallback })
export const queryBoolean = (fallback: boolean) =>
  z
    .preprocess(booleanOf, z.boolean())
    .default(fallback)
    .meta({ [queryDefault]: fallback })

/** The highest offset that paging accepts; no list is that long. */
const highestOffset = 1_000_000_000

export const paging = (highestLimit: number, descending: boolean) => ({
  limit: queryLimit(highestLimit, 100).describe(
    `The most objects to return. A limit above ${highestLimit} is reduced to ${highestLimit}.`,
  ),
  offset: queryInteger(0, highestOffset, 0).describe('How many objects to skip.'),
  descending: queryBoolean(descending).describe('`true` returns the newest first.'),
})

export const createdRange = {
  created_after: queryTime.optional().describe('Only objects created after this time.'),
  created_before: queryTime.optional().describe('Only objects created before this time.'),
}

export const userType = input(
  'UserType',
  z
    .enum(['application', 'admin', 'application_read_only'])
    .describe('`application` is the role app, `admin` the role admin, `application_read_only` the role app_read_only.'),
)
export type UserType = z.output<typeof userType>
export const userTypes: readonly UserType[] = userType.options
export const userTypeQuery = z.strictObject({
  user_type: userType.default('application').describe('The role whose credentials `connection` contains.'),
})

export const connection = output(
  'ManagedConnection',
  z
    .strictObject({
      username: z.string().describe('The role to log in as.'),
      password: z.string().describe("The role's password."),
      port: z.int().describe('The port to connect to.'),
      database: z.string().describe('The Postgres database to connect to.'),
      host: z.string().optional().describe('The host to connect to: a name or an IP address.'),
      external_ip_address: z.string().optional().describe('The IP address of the host, if known.'),
    })
    .meta({
      description:
        'Connection details. Returned only by a read of a single object, once it has an address and the role has a password.',
      example: { username: 'app', password: '<DB_PASSWORD>', port: 15432, database: 'app', host: '127.0.0.1' },
    }),
)
export type Connection = z.output<typeof connection>

export const errorShape = output(
  'Error',
  z
    .strictObject({
      code: z.int().describe('The HTTP status.'),
      message: z.string().describe('The error message. For an invalid field, it names the field and the rule.'),
      reason: z
        .enum(refusalReasons)
        .optional()
        .describe(
          'Why the account is refused. More values may be added: treat an unknown value as a generic error of that status.',
        ),
    })
    .meta({
      description: 'An error.',
      example: { code: 400, message: 'display_name: must be at most 25 characters long' },
    }),
)
