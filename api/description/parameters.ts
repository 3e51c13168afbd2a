/** The parameters of an operation in the API description: path, query and headers, with all their rules. */
import { z } from 'zod'
import { entityTagsPattern } from '../../values/entity-tags.ts'
import { isRecord } from '../../values/record.ts'
import { idempotencyKeyPattern } from '../headers.ts'
import type { Documentation } from '../operation.ts'
import { type JsonSchema, schemaOf } from './json-schema.ts'

const requestHeaders = {
  'Idempotency-Key': {
    description:
      'Makes retries safe: for 24 hours, the same request with the same key is not executed again and gets the first response.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: idempotencyKeyPattern.source },
  },
  'If-Match': {
    description:
      'Applies the write only if a read of the object has one of these entity tags, as returned in `ETag`; `*` matches any. Otherwise 412. A request that was already executed still gets its first response.',
    schema: { type: 'string', pattern: entityTagsPattern.source },
    example: '"KhVqZ0kYF2m5bTq1c9sLJ8uOe3w"',
  },
  'If-None-Match': {
    description:
      'Entity tags of bodies that the client has. If one matches the response, the response is 304 without a body.',
    schema: { type: 'string' },
    example: '"KhVqZ0kYF2m5bTq1c9sLJ8uOe3w"',
  },
  Prefer: {
    description: '`wait=N` delays the response until the object is stable, for at most N seconds. The maximum is 60.',
    schema: { type: 'string' },
  },
} as const

function membersOf(shape: unknown, place: 'path' | 'query'): JsonSchema[] {
  if (!(shape instanceof z.ZodType)) return []
  const { properties } = schemaOf(shape, 'input')
  return Object.entries(isRecord(properties) ? properties : {}).map(([name, member]) => {
    const { description, ...schema } = isRecord(member) ? member : {}
    return { name, in: place, required: place === 'path', description, schema }
  })
}

export function parametersOf({ takes = [] }: Documentation, params: unknown, query: unknown): JsonSchema[] {
  const headers = takes.map(name => ({ name, in: 'header', required: false, ...requestHeaders[name] }))
  return [...membersOf(params, 'path'), ...membersOf(query, 'query'), ...headers]
}
