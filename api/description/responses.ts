/**
 * The responses in the API description: each error and each header once, by name, and the responses of each operation.
 */
import type { Documentation, HeaderName } from '../operation.ts'
import { limited, responseHeaders } from '../operation.ts'
import { componentPath } from '../schemas/components.ts'
import { type JsonSchema, schemaOf } from './json-schema.ts'

type Refusal = { name: string; description: string; headers?: readonly HeaderName[] }

const refusals: Record<number, Refusal> = {
  400: { name: 'BadRequest', description: 'The request is invalid. The message names the field and the rule.' },
  401: { name: 'Unauthorized', description: 'The token is missing or invalid.', headers: ['WWW-Authenticate'] },
  403: {
    name: 'Forbidden',
    description: 'The account may not do this. If the account itself is the cause, `reason` names it.',
  },
  404: { name: 'NotFound', description: 'The object does not exist.' },
  409: { name: 'Conflict', description: 'The object is busy, or is protected.', headers: ['Retry-After'] },
  412: { name: 'PreconditionFailed', description: 'The object has changed since it was read.' },
  413: { name: 'ContentTooLarge', description: 'The body is longer than 1 MiB.' },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not application/json in UTF-8, or has a content coding.',
  },
  429: { name: 'TooManyRequests', description: 'Too many requests.', headers: ['Retry-After'] },
  503: {
    name: 'ServiceUnavailable',
    description: 'The API cannot serve the request now.',
    headers: ['Retry-After'],
  },
}
// Other errors include 405 for an unsupported method.
const otherError: Refusal = { name: 'UnexpectedError', description: 'Any other error.', headers: ['Allow'] }

const headersOf = (names: readonly HeaderName[] = []) =>
  Object.fromEntries(['X-Request-Id' as const, ...names].map(name => [name, { $ref: `#/components/headers/${name}` }]))

const referenceTo = ({ name }: Refusal) => ({ $ref: `#/components/responses/${name}` })

const error = { 'application/json': { schema: { $ref: componentPath('Error') } } }

/** Components that operations refer to. */
export const responseComponents = {
  headers: responseHeaders,
  responses: {
    NotModified: { description: 'Not modified.', headers: headersOf([...limited, 'ETag']) },
    ...Object.fromEntries(
      [...Object.values(refusals), otherError].map(({ name, description, headers = [] }) => [
        name,
        // These headers are optional, because responses without a valid token omit them.
        { description, headers: headersOf([...limited, ...headers]), content: error },
      ]),
    ),
  },
}

/** Returns all responses of an operation: success, its own errors, and errors of any request. */
export function responsesOf({ success, errors = [], open, conditional }: Documentation, method: string): JsonSchema {
  const { status, description, shape, mediaType = 'application/json', headers = [] } = success
  const content = shape && { content: { [mediaType]: { schema: schemaOf(shape, 'output') } } }
  const ofBody = method === 'GET' ? [] : [413, 415]
  const refused = [...new Set([...errors, ...ofBody, ...(open ? [] : [401, 403, 429, 503])])].sort()
  return {
    [status]: { description, headers: headersOf([...(open ? [] : limited), ...headers]), ...content },
    ...(conditional ? { 304: { $ref: '#/components/responses/NotModified' } } : {}),
    ...Object.fromEntries(refused.map(code => [code, referenceTo(refusals[code] ?? otherError)])),
    default: referenceTo(otherError),
  }
}
