/**
 * How a route says what it takes and gives: zod schemas for what comes in, which Fastify checks, and a documentation
 * from which `openapi.ts` makes the API description. What goes out is typed where it is rendered and not checked again
 * at run time.
 */
import type { z } from 'zod'

export const tags = {
  databases: 'Managed Postgres databases.',
  branches: 'Branches: copies of a database, each with an address and passwords of its own.',
  backups: 'Backups of a database: snapshots of its volume.',
  catalog: 'What is on offer: sizes, regions and Postgres versions.',
  tasks: 'Records of asynchronous operations.',
  caller: 'What the API sees of the caller.',
  service: 'The API itself: its description, its certificate authority, its health.',
} as const

type Success = {
  status: 200 | 201 | 202 | 204
  description: string
  /** Absent: no body. */
  shape?: z.ZodType
  /** Of the body; absent: JSON. */
  mediaType?: string
  /** Set on this answer beside X-Request-Id. */
  headers?: readonly HeaderName[]
}

type RequestHeaderName = 'Idempotency-Key' | 'If-Match' | 'If-None-Match' | 'Prefer'

export type Documentation = {
  operationId: string
  tag: keyof typeof tags
  summary: string
  description?: string
  success: Success
  /** Beyond 401, 403, 429 and 503, which any request with a token can meet, and 413 and 415, which any with a body can. */
  errors?: readonly (400 | 404 | 409 | 412 | 503)[]
  /** Request headers that mean something here. */
  takes?: readonly RequestHeaderName[]
  /** It answers 304 where the client has what there is. */
  conditional?: true
  /** No token is needed. */
  open?: boolean
}

/** Headers that answers carry, and what they say. */
export const responseHeaders = {
  'X-Request-Id': {
    description:
      'The id of this request in the logs: the X-Request-Id of the request where it brings a usable one, else a new one.',
    required: true,
    schema: { type: 'string', minLength: 1, maxLength: 128 },
  },
  'X-Task-Id': {
    description: 'The id of the task that records the operation. Absent where there is nothing left to do.',
    schema: { type: 'string', format: 'uuid' },
  },
  Location: { description: 'The path of that task.', schema: { type: 'string', format: 'uri-reference' } },
  ETag: {
    description: 'The tag of this body (RFC 9110): strong, so the same tag is the same body.',
    schema: { type: 'string', pattern: '^"[^"]+"$' },
  },
  'Retry-After': {
    description: 'Wait this many seconds before you try again.',
    schema: { type: 'integer', minimum: 1 },
  },
  'X-Total-Count': {
    description: 'The number of objects on all pages together.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
  },
  'X-Applied-Limit': {
    description: 'The most that this answer could hold: the limit that was asked for, or the highest there is.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  Link: {
    description: 'The next page, as `rel="next"` (RFC 8288). Absent on the last page.',
    schema: { type: 'string' },
  },
  'Preference-Applied': { description: 'The wait that was applied (RFC 7240).', schema: { type: 'string' } },
  'RateLimit-Policy': {
    description:
      'How much may be asked (draft-ietf-httpapi-ratelimit-headers): `q` requests at once, and as many again in `w` seconds. `account` is the limit of the account, `failures` that of refused credentials of one address, `keys` that of new Idempotency-Keys.',
    schema: { type: 'string' },
    example: '"account";q=1000;w=5',
  },
  RateLimit: {
    description:
      'How much is left: `r` requests now, and all of them again in `t` seconds. With 429: the next one in `t` seconds, as Retry-After says.',
    schema: { type: 'string' },
    example: '"account";r=999;t=1',
  },
  Allow: { description: 'The methods that the path takes.', schema: { type: 'string' } },
  'WWW-Authenticate': {
    description: 'What is wrong with the credential (RFC 6750).',
    required: true,
    schema: { type: 'string' },
  },
} as const
export type HeaderName = keyof typeof responseHeaders

export const asynchronous: readonly HeaderName[] = ['X-Task-Id', 'Location', 'Preference-Applied']
export const limited: readonly HeaderName[] = ['RateLimit-Policy', 'RateLimit']
export const paged: readonly HeaderName[] = ['X-Total-Count', 'X-Applied-Limit', 'Link']

type Inputs = {
  params?: z.ZodType
  querystring?: z.ZodType
  body?: z.ZodType
}

declare module 'fastify' {
  interface FastifySchema {
    documentation?: Documentation
    hide?: boolean
  }
}

/** The schema of a route that takes no query: any parameter is refused by name. */
export function operation<const I extends Inputs>(
  documentation: Documentation,
  inputs: I,
): I & { documentation: Documentation } {
  return { ...inputs, documentation }
}
