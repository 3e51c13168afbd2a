/**
 * The types of configuration values: how each is read from a file, the environment or the database, and its error text.
 * Numbers and booleans may be text, since the environment and the database have only text.
 */
import { z } from 'zod'
import { isConnectionText, maskConnectionText, maskUserInfo } from './connection-text.ts'
import { durationMs } from './duration.ts'

/** The type's name in the documentation. A mode is text of octal digits in a file, and a number here. */
export type ValueType = 'string' | 'integer' | 'number' | 'boolean' | 'list' | 'mode'
export type Kind<Schema extends z.ZodType = z.ZodType> = {
  type: ValueType
  /** The error text after the key's name. Undefined: the schema has the texts. */
  rule?: string
  schema: Schema
  /** Whether a text is given but all its entries are empty. The user probably means `[]`. */
  isBlank?: (value: unknown) => boolean
  /** The printed form, if it differs from the full value. */
  mask?: (text: string) => string
}

/** In UTF-16 code units. This is enough for a set of a hundred keys. */
export const MAX_VALUE_LENGTH = 65_536
/** The maximum seconds of a Node timer, which counts milliseconds. */
const LONGEST_TIME = 2_147_483

const scalarText = z.union([z.string(), z.union([z.number(), z.boolean()]).transform(String)])
const isPrintable = (text: string) => !/\p{Cc}/u.test(text)
/** Postgres truncates longer names, so two longer names could become equal. */
const isName = (text: string) => isPrintable(text) && Buffer.byteLength(text) <= 63

export const integer = (least: number, most: number) => ({
  type: 'integer' as const,
  rule: `must be a whole number from ${least} to ${most}`,
  schema: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\s*-?\d{1,15}\s*$/)
        .transform(Number),
    ])
    .pipe(z.int().min(least).max(most)),
})

/** A number with or without decimals. */
export const decimal = (least: number, most: number) => ({
  type: 'number' as const,
  rule: `must be a number from ${least} to ${most}`,
  schema: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\s*-?\d{1,15}(\.\d{1,15})?\s*$/)
        .transform(Number),
    ])
    .pipe(z.number().min(least).max(most)),
})

export const seconds = () => integer(1, LONGEST_TIME)

export const truth = () => ({
  type: 'boolean' as const,
  rule: 'must be true or false',
  schema: z.union([
    z.boolean(),
    z.stringbool({ truthy: ['true', 'on', 'yes', '1'], falsy: ['false', 'off', 'no', '0'] }),
  ]),
})

/** A text whose form `rule` describes. */
export const text = (rule: string, isRight: (text: string) => boolean) => ({
  type: 'string' as const,
  rule,
  schema: scalarText.pipe(z.string().max(MAX_VALUE_LENGTH).refine(isRight)),
})

export const choice = <const Options extends readonly [string, ...string[]]>(...options: Options) => ({
  type: 'string' as const,
  rule: `must be one of ${options.map(option => `"${option}"`).join(', ')}`,
  schema: z.enum(options),
})

export const secret = () => text(`must not be longer than ${MAX_VALUE_LENGTH} characters`, () => true)

/** Long enough that no one can guess it. */
export const longSecret = () =>
  text('must have 32 to 4096 characters', value => value.length >= 32 && value.length <= 4_096)

/**
 * Passwords for one login, newest first. The file has a list, or a text with one password on each line. The setting is
 * a text of lines.
 */
export const passwords = () => ({
  type: 'list' as const,
  rule: 'must be a password, or a list of at most 10, the newest first',
  schema: z
    .union([z.array(scalarText), scalarText.transform(value => value.split('\n'))])
    .transform(all => all.filter(one => one !== ''))
    .refine(all => all.length <= 10 && all.every(one => one.length <= 1_000 && !/[\0\r\n]/.test(one)))
    .transform(all => all.join('\n')),
})

/** The address, with port, at which other processes reach this process. */
export const reachableAddress = () => {
  const { type, schema } = listenAddress()
  const rule = 'must be an address with a port, like 10.0.0.7:8080, [fd00::7]:8080 or tools-0.internal:8080'
  return { type, rule, schema: schema.refine(({ host, port }) => !['', '*'].includes(host) && port > 0) }
}

export const name = () => text('must be a name of at most 63 bytes without control characters', isName)

/** A function's name, with or without its schema. */
export const functionName = () =>
  text('must be the name of a function, of at most 255 characters', value => isPrintable(value) && value.length <= 255)

/** A duration. The setting is in milliseconds. */
export const duration = (leastMs: number, mostMs: number) => {
  const { schema, type } = text('', value => durationMs(value) >= leastMs && durationMs(value) <= mostMs)
  const rule = `must be a time like 500ms, 30s, 5m or 1h, from ${leastMs} ms to ${mostMs / 1_000} s`
  return { type, rule, schema: schema.transform(durationMs) }
}

export const path = () =>
  text('must be a path of 1 to 4096 characters', value => value !== '' && value.length <= 4_096 && isPrintable(value))

export const words = () =>
  text('must be 1 to 255 characters without control characters', value => {
    return value !== '' && value.length <= 255 && isPrintable(value)
  })

/** `host:port`, `[host]:port` or `:port`. The setting has host and port. */
export const listenAddress = () => {
  const form = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._*-]*)):(\d{1,5})$/
  const parts = (value: string) => {
    const [, bracketed, plain, port = ''] = form.exec(value) ?? []
    return { host: bracketed ?? plain ?? '', port: Number(port) }
  }
  const { type, rule, schema } = text('must be an address like :8080, 127.0.0.1:8080 or [::1]:8080', value => {
    return form.test(value) && parts(value).port <= 65_535
  })
  return { type, rule, schema: schema.transform(parts) }
}

const isBlankText = (value: unknown) => typeof value === 'string' && /^[\s,]*$/.test(value)

/** A list in the file, or comma-separated text. Empty entries are ignored. */
export const entries = (rule: string, isRight: (entry: string) => boolean) => ({
  type: 'list' as const,
  rule,
  isBlank: (value: unknown) =>
    Array.isArray(value) ? value.length > 0 && value.every(isBlankText) : isBlankText(value),
  schema: z
    .union([z.array(scalarText), scalarText.transform(value => value.split(','))])
    .transform(all => all.map(entry => entry.trim()).filter(entry => entry !== ''))
    .refine(all => all.length <= 1_000 && all.every(entry => entry.length <= MAX_VALUE_LENGTH && isRight(entry))),
})

export const blocks = (isBlock: (text: string) => boolean) =>
  entries('must be IP addresses or CIDR blocks like 10.0.0.0/8 or fd00::/8', isBlock)

const list = (rule: string, isRight: (entries: string[]) => boolean) => ({
  type: 'list' as const,
  rule,
  schema: scalarText
    .pipe(z.string().max(MAX_VALUE_LENGTH))
    .transform(value => (value.trim() === '' ? [] : value.split(',').map(entry => entry.trim())))
    .refine(isRight),
})

/** Comma-separated names. The text may be empty. */
export const names = () =>
  list('must be at most 100 comma-separated names of at most 63 bytes', entries => {
    return entries.length <= 100 && entries.every(entry => entry !== '' && isName(entry))
  })

/** The exposed schemas. Postgres's own schemas are never exposed, because requests could call their functions. */
export const servedSchemas = () =>
  list(
    'must be 1 to 100 comma-separated schemas, each once, and neither pg_catalog nor information_schema',
    entries =>
      entries.length >= 1 &&
      entries.length <= 100 &&
      new Set(entries).size === entries.length &&
      entries.every(entry => entry !== '' && isName(entry) && !['pg_catalog', 'information_schema'].includes(entry)),
  )

/** Comma-separated origins (RFC 6454, section 6.2), or `*`. An empty list counts as not set. */
export const origins = () => {
  const { type, rule, schema } = list(
    'must be at most 1000 comma-separated origins like https://example.com',
    entries => entries.length <= 1000 && entries.every(entry => /^(?:\*|[\x21-\x7e]+)$/.test(entry)),
  )
  return { type, rule, schema: schema.transform(entries => (entries.length === 0 ? undefined : entries)) }
}

export const connection = () => ({
  ...text(
    'must be a connection string: postgresql://user:password@host:port/database with unusual characters percent-encoded, or keyword=value pairs',
    isConnectionText,
  ),
  mask: maskConnectionText,
})

/** RFC 7519, section 2, StringOrURI: a value with a colon is a URI. */
export const audience = () =>
  text('must be a string without ":" or a valid URI', value => {
    return (
      isPrintable(value) &&
      (!value.includes(':') || /^[A-Za-z][A-Za-z0-9+.-]*:[\w.~:/?#[\]@!$&'()*+,;=%-]*$/.test(value))
    )
  })

export const httpUri = () => ({
  ...text('must be a URI of http or https, like https://example.com:8443/path', value => {
    return /^https?:\/\/[^\s\\]+$/i.test(value) && URL.canParse(value)
  }),
  mask: maskUserInfo,
})

export const listenHost = () =>
  text('must be a host name, an address, or one of *, *4, !4, *6, !6', value => {
    return /^(?:\*|[*!][46]|[0-9A-Za-z._:%-]{1,255})$/.test(value)
  })

/** RFC 9110, section 5.1. */
export const headerName = () =>
  text('must be the name of a header', value => /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/.test(value))

/** The kernel's limit is 107 bytes. */
export const socketPath = () =>
  text('must be a path of at most 107 bytes', value => isPrintable(value) && Buffer.byteLength(value) <= 107)

export const mode = () => ({
  type: 'mode' as const,
  rule: 'must be an octal mode from 600 to 777',
  schema: scalarText.pipe(z.string().regex(/^[67][0-7]{2}$/)).transform(digits => Number.parseInt(digits, 8)),
})
