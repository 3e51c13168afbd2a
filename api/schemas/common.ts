/** What several resources' shapes are made of: ids, times, query parameters, errors. */
import { z } from 'zod'
import { timestamp, uuid } from '../../crds/index.ts'
import { refusalReasons } from '../errors.ts'
import { input, output } from './components.ts'

/** A filter by text: what nothing is called finds nothing. */
export const queryText = z.string()

const listOf = (text: unknown): unknown => [text].flat().flatMap(part => String(part).split(','))

/** A parameter that stands several times, or once with commas. */
export const queryList = <T extends z.ZodType>(item: T) => z.preprocess(listOf, z.array(item))

/** Letter case does not matter on input (RFC 9562, section 4); ids are kept in lower case. */
const lowerCase = (text: unknown): unknown => (typeof text === 'string' ? text.toLowerCase() : text)
export const id = z.preprocess(lowerCase, uuid.meta({ format: 'uuid' }))

/** Every path of one object of `/managed/v1/<resource>/{id}`. */
export const idParameter = z.strictObject({ id: id.describe('The id of the object, a UUID.') })

/** An id as it goes out. */
export const idText = z.string().meta({ format: 'uuid' })

/** A date and time as it goes out. Plain text here, since what goes out is not checked again. */
export const time = z.string().meta({ format: 'date-time' })

/** A date and time as it comes in: the T and Z of RFC 3339 may be small (section 5.6). */
const capitals = (text: unknown): unknown => (typeof text === 'string' ? text.toUpperCase() : text)
export const inputTime = z.preprocess(capitals, timestamp)

/** A `+` in a query stands for a space: that of an offset that nobody encoded is one again. */
const plusOfOffset = (text: unknown): unknown =>
  typeof text === 'string' ? text.replace(/ (?=\d\d:\d\d$)/, '+') : text
export const queryTime = z.preprocess(plusOfOffset, inputTime)

/** What an answer holds and an input may therefore repeat: taken, and not kept, however much it is. `as` is what an answer has. */
export const ignored = (description: string, as: Record<string, unknown> = {}) =>
  z
    .unknown()
    .optional()
    .transform(() => undefined)
    .meta({ readOnly: true, description, ...as })

/** Digits beyond what a number can hold are a number out of every range, and told so. */
const numberOf = (text: unknown): unknown =>
  typeof text === 'string' && /^-?[0-9]+$/.test(text)
    ? Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
    : text
const booleanOf = (text: unknown): unknown => (text === 'true' ? true : text === 'false' ? false : text)

/** Zod keeps no default of what is read from text: it travels under this name into the API description. */
export const queryDefault = 'x-default'

/** Query parameters come as text; these read them strictly: `limit=10`, never `limit=ten` or `limit=1e1`. */
const queryInteger = (minimum: number, maximum: number, fallback: number) =>
  z
    .preprocess(numberOf, z.int().min(minimum).max(maximum))
    .default(fallback)
    .meta({ [queryDefault]: fallback })
/** A number in a path. */
export const pathInteger = z.preprocess(numberOf, z.int().min(1))
/** How many things an answer holds at most. More than the most is cut to it, and `X-Applied-Limit` says what was applied. */
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

/** Highest offset that paging takes; no list is that long. */
const highestOffset = 1_000_000_000

export const paging = (highestLimit: number, descending: boolean) => ({
  limit: queryLimit(highestLimit, 100).describe(
    `The most objects to return. More than ${highestLimit} is cut to ${highestLimit}.`,
  ),
  offset: queryInteger(0, highestOffset, 0).describe('How many objects to skip first.'),
  descending: queryBoolean(descending).describe('`true` returns the newest first.'),
})

export const createdRange = {
  created_after: queryTime.optional().describe('Only objects created after this time.'),
  created_before: queryTime.optional().describe('Only objects created before this time.'),
}

const userType = input(
  'UserType',
  z
    .enum(['application', 'admin', 'application_read_only'])
    .describe('`application` is the role app, `admin` the role admin, `application_read_only` the role app_read_only.'),
)
export type UserType = z.output<typeof userType>
export const userTypes: readonly UserType[] = userType.options
export const userTypeQuery = z.strictObject({
  user_type: userType.default('application').describe('Whose credentials `connection` has.'),
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
      external_ip_address: z.string().optional().describe('The IP address behind the host, where it is known.'),
    })
    .meta({
      description:
        'How to connect. Returned only by a read of a single object, once it has an address and the role has a password.',
      example: { username: 'app', password: '<DB_PASSWORD>', port: 15432, database: 'app', host: '127.0.0.1' },
    }),
)
export type Connection = z.output<typeof connection>

export const errorShape = output(
  'Error',
  z
    .strictObject({
      code: z.int().describe('The HTTP status.'),
      message: z.string().describe('What is wrong. Where a field is wrong, it names the field and the rule.'),
      reason: z
        .enum(refusalReasons)
        .optional()
        .describe(
          'Why the account is refused. There may be other values later: treat one you do not know as a plain error of that status.',
        ),
    })
    .meta({
      description: 'An error.',
      example: { code: 400, message: 'display_name: must be at most 25 characters long' },
    }),
)
