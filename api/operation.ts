/**
 * How a route says what it takes and gives: zod schemas for what comes in, which Fastify checks, and a documentation
 * from which `openapi.ts` makes the API description. What goes out is typed where it is rendered and not checked again
 * at run time.
 */
import type { z } from 'zod'

export const tags = {
  databases: 'Managed databases',
  branches: 'Branches of a database',
  backups: 'Backups and restore points',
  catalog: 'What is on offer: sizes, regions, Postgres versions',
  tasks: 'Records of asynchronous operations',
  caller: 'About the caller',
  service: 'About the service itself',
} as const

export type Success = {
  status: 200 | 202 | 204
  description: string
  /** Absent: no body. */
  shape?: z.ZodType
  /** Of the body; absent: JSON. */
  mediaType?: string
  /** Set on this answer beside X-Request-Id. */
  headers?: readonly HeaderName[]
}

export type Documentation = {
  operationId: string
  tag: keyof typeof tags
  summary: string
  description?: string
  success: Success
  /** Beyond 401, 403, 429 and 503, which any request with a token can meet. */
  errors?: readonly (400 | 404 | 409)[]
  /** Request headers that mean something here. */
  takes?: readonly ('Idempotency-Key' | 'Prefer')[]
  /** No token is needed. */
  open?: boolean
}

/** Headers that answers carry, and what they say. */
export const responseHeaders = {
  'X-Request-Id': 'names the request in the logs; taken over from the request where it is sane',
  'X-Task-Id': 'the task that follows the operation',
  Location: 'the path of that task',
  'Retry-After': 'seconds after which trying again makes sense',
  'X-Total-Count': 'how many objects there are on all pages',
  Link: 'the next page, as rel="next" (RFC 8288)',
  'Preference-Applied': 'the wait that was done (RFC 7240)',
  'WWW-Authenticate': 'what the credential lacked (RFC 6750)',
} as const
export type HeaderName = keyof typeof responseHeaders

export const asynchronous: readonly HeaderName[] = ['X-Task-Id', 'Location', 'Preference-Applied']
export const paged: readonly HeaderName[] = ['X-Total-Count', 'Link']

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
