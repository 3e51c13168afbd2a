/**
 * Declares a route's input and output: zod schemas for the input, which Fastify checks, and documentation, from which
 * `openapi.ts` generates the API description. Output has types where it is rendered, and is not checked again at run
 * time.
 */
import type { z } from 'zod'

export const tags = {
  databases: 'Managed Postgres databases.',
  branches: 'Branches: copies of a database, each with its own address and passwords.',
  backups: 'Backups of a database: volume snapshots, or copies in object storage.',
  catalog: 'The catalogue: sizes, regions and Postgres versions.',
  tasks: 'Records of asynchronous operations.',
  events: 'Changes as they happen.',
  audit: 'Attempts to write.',
  caller: "The API's view of the caller.",
  service: 'The API itself: its description, its certificate authority, its health.',
} as const

type Success = {
  status: 200 | 201 | 202 | 204
  description: string
  /** If absent, the response has no body. */
  shape?: z.ZodType
  /** The content type of the body; if absent, JSON. */
  mediaType?: string
  /** Headers of this response, in addition to X-Request-Id. */
  headers?: readonly HeaderName[]
}

type RequestHeaderName = 'Idempotency-Key' | 'If-Match' | 'If-None-Match' | 'Prefer'

export type Documentation = {
  operationId: string
  tag: keyof typeof tags
  summary: string
  description?: string
  success: Success
  /**
   * Errors in addition to 401, 403, 429 and 503, which any request with a token can cause, and to 413 and 415, which
   * any request with a body can cause.
   */
  errors?: readonly (400 | 404 | 409 | 412 | 503)[]
  /** Request headers that this operation uses. */
  takes?: readonly RequestHeaderName[]
  /** Whether the operation answers 304 if the client has the current version. */
  conditional?: true
  /** Whether the operation needs no token. */
  open?: boolean
}

/** Response headers and their descriptions. */
export const responseHeaders = {
  'X-Request-Id': {
    description:
      'The id of this request in the logs: the X-Request-Id of the request if it is usable, otherwise a new one.',
    required: true,
    schema: { type: 'string', minLength: 1, maxLength: 128 },
  },
  'X-Task-Id': {
    description: 'The id of the task that records the operation. Absent if there is nothing left to do.',
    schema: { type: 'string', format: 'uuid' },
  },
  Location: { description: 'The path of that task.', schema: { type: 'string', format: 'uri-reference' } },
  ETag: {
    description: 'The entity tag of this body (RFC 9110). It is strong: equal tags mean equal bodies.',
    schema: { type: 'string', pattern: '^"[^"]+"$' },
  },
  'Retry-After': {
    description: 'How many seconds to wait before a retry.',
    schema: { type: 'integer', minimum: 1 },
  },
  'X-Total-Count': {
    description: 'The number of objects on all pages together.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
  },
  'X-Applied-Limit': {
    description: 'The applied limit: the requested limit, or the maximum if that is lower.',
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
      'The request limits (draft-ietf-httpapi-ratelimit-headers): `q` requests at once, and as many again in `w` seconds. `account` is the limit of the account, `failures` that of refused credentials from one address, `keys` that of new Idempotency-Keys.',
    schema: { type: 'string' },
    example: '"account";q=1000;w=5',
  },
  RateLimit: {
    description:
      'The remaining requests: `r` now, and the full limit again in `t` seconds. With 429: the next request in `t` seconds, as in Retry-After.',
    schema: { type: 'string' },
    example: '"account";r=999;t=1',
  },
  Allow: { description: 'The methods that the path accepts.', schema: { type: 'string' } },
  'WWW-Authenticate': {
    description: 'The problem with the credential (RFC 6750).',
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

/** Creates a route's schema. A route without query parameters refuses any parameter by name. */
export function operation<const I extends Inputs>(
  documentation: Documentation,
  inputs: I,
): I & { documentation: Documentation } {
  return { ...inputs, documentation }
}
