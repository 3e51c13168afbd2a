/**
 * The kinds of value a key can have: how each is read from a file, the environment or the database, and the one sentence that is said
 * where it cannot be. Numbers and truths may come as text, since that is all the environment and the database have.
 */
import { z } from 'zod'
import { isConnectionText, maskConnectionText, maskUserInfo } from './connection-text.ts'
import { durationMs } from './duration.ts'

/** As the documentation names them; a mode is text of octal digits in a file and a number here. */
export type ValueType = 'string' | 'integer' | 'number' | 'boolean' | 'list' | 'mode'
export type Kind<Schema extends z.ZodType = z.ZodType> = {
  type: ValueType
  /** Continues the sentence that the key begins; undefined: the schema has the rules. */
  rule?: string
  schema: Schema
  /** Whether something is written of which no entry is left; `[]` is meant. */
  isBlank?: (value: unknown) => boolean
  /** What is printed of it, where that is not all. */
  mask?: (text: string) => string
}

/** In UTF-16 code units: room for a set of a hundred keys. */
export const MAX_VALUE_LENGTH = 65_536
/** Seconds: the longest time a timer of Node holds, counted in milliseconds. */
const LONGEST_TIME = 2_147_483

const scalarText = z.union([z.string(), z.union([z.number(), z.boolean()]).transform(String)])
const isPrintable = (text: string) => !/\p{Cc}/u.test(text)
/** Postgres cuts longer names off, so that two of them could become one. */
const isName = (text: string) => isPrintable(text) && Buffer.byteLength(text) <= 63

export const whole = (least: number, most: number) => ({
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

/** With decimals or without. */
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

export const seconds = () => whole(1, LONGEST_TIME)

export const truth = () => ({
  type: 'boolean' as const,
  rule: 'must be true or false',
  schema: z.union([
    z.boolean(),
    z.stringbool({ truthy: ['true', 'on', 'yes', '1'], falsy: ['false', 'off', 'no', '0'] }),
  ]),
})

/** Text of some form; what the form is, the rule says. */
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

/** Long enough that it cannot be guessed. */
export const longSecret = () =>
  text('must have 32 to 4096 characters', value => value.length >= 32 && value.length <= 4_096)

/** Passwords for one login, newest first: a list, or lines of a text. They are read as lines. */
export const passwords = () => ({
  type: 'list' as const,
  rule: 'must be a password, or a list of at most 10, the newest first',
  schema: z
    .union([z.array(scalarText), scalarText.transform(value => value.split('\n'))])
    .transform(all => all.filter(one => one !== ''))
    .refine(all => all.length <= 10 && all.every(one => one.length <= 1_000 && !/[\0\r\n]/.test(one)))
    .transform(all => all.join('\n')),
})

/** Where other processes reach this one, with its port. */
export const reachableAddress = () => {
  const { type, schema } = listenAddress()
  const rule = 'must be an address with a port, like 10.0.0.7:8080, [fd00::7]:8080 or tools-0.internal:8080'
  return { type, rule, schema: schema.refine(({ host, port }) => !['', '*'].includes(host) && port > 0) }
}

export const name = () => text('must be a name of at most 63 bytes without control characters', isName)

/** Of a function, with its schema or without. */
export const functionName = () =>
  text('must be the name of a function, of at most 255 characters', value => isPrintable(value) && value.length <= 255)

/** Read as milliseconds. */
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

/** `host:port`, `[host]:port` or `:port`, read as host and port. */
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

/** A list of a file, or text with commas between the entries; empty entries do not count. */
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

/** Names with commas between them; may be empty. */
export const names = () =>
  list('must be names of at most 63 bytes with commas between them, at most 100', entries => {
    return entries.length <= 100 && entries.every(entry => entry !== '' && isName(entry))
  })

/** Schemas that are served. Those of Postgres itself never are: their functions would become requests. */
export const servedSchemas = () =>
  list(
    'must be 1 to 100 schemas with commas between them, each once, and neither pg_catalog nor information_schema',
    entries =>
      entries.length >= 1 &&
      entries.length <= 100 &&
      new Set(entries).size === entries.length &&
      entries.every(entry => entry !== '' && isName(entry) && !['pg_catalog', 'information_schema'].includes(entry)),
  )

/** Origins with commas between them (RFC 6454 section 6.2), or `*`; none at all reads as not set. */
export const origins = () => {
  const { type, rule, schema } = list(
    'must be origins like https://example.com with commas between them, at most 1000',
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

/** RFC 7519 section 2, StringOrURI: with a colon in it, it is a URI. */
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

/** RFC 9110 section 5.1. */
export const headerName = () =>
  text('must be the name of a header', value => /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/.test(value))

/** 107 bytes are what the kernel has room for. */
export const socketPath = () =>
  text('must be a path of at most 107 bytes', value => isPrintable(value) && Buffer.byteLength(value) <= 107)

export const mode = () => ({
  type: 'mode' as const,
  rule: 'must be an octal mode from 600 to 777',
  schema: scalarText.pipe(z.string().regex(/^[67][0-7]{2}$/)).transform(digits => Number.parseInt(digits, 8)),
})
