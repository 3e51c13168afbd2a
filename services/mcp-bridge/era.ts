/**
 * Which era of the protocol a posted message is of, and whether its headers say what its body says. The body decides: what claims a version in `params._meta` is of 2026-07-28 or later and stands alone,
 * everything else belongs to a session or to none.
 */
import type { Headers } from '../http/message.ts'
import { isModernVersion } from '../mcp-protocol/era.ts'
import { ProtocolError } from '../mcp-protocol/errors.ts'
import { checkArguments, checkRequired, checkSaid } from '../mcp-protocol/headers.ts'
import type { JsonSchema } from '../mcp-protocol/json.ts'
import { modernVersion } from '../mcp-protocol/versions.ts'
import {
  errorResponse,
  invalidParams,
  isObject,
  type Message,
  metaOf,
  protocolPrefix,
  type RequestMessage,
  type ResponseMessage,
} from './message.ts'

const headerMismatch = -32_020
const unsupportedVersion = -32_022

/** `refused` goes with status 400. */
type Era =
  | { readonly kind: 'modern' }
  | { readonly kind: 'legacy' }
  | { readonly kind: 'refused'; readonly error: ResponseMessage }

export function eraOf(message: Message, headers: Headers): Era {
  const version = headers['mcp-protocol-version']?.trim()
  if (message.kind === 'response') return { kind: 'legacy' }
  const claimed = metaOf(message.params)?.[`${protocolPrefix}protocolVersion`]
  if (message.kind === 'notification')
    return claimed === undefined && !isModernVersion(version) ? { kind: 'legacy' } : { kind: 'modern' }
  const { id, method } = message
  const refuse = (code: number, text: string, data?: { readonly [key: string]: string | readonly string[] }): Era => ({
    kind: 'refused',
    error: errorResponse(id, code, text, data),
  })
  if (claimed === undefined) {
    if (!isModernVersion(version)) return { kind: 'legacy' }
    if (method === 'initialize') return refuse(headerMismatch, `initialize is not part of version ${version}`)
    return refuse(invalidParams, `params._meta must have ${protocolPrefix}protocolVersion and clientCapabilities`)
  }
  const capabilities = metaOf(message.params)?.[`${protocolPrefix}clientCapabilities`]
  if (typeof claimed !== 'string' || !isObject(capabilities))
    return refuse(invalidParams, `params._meta must have ${protocolPrefix}protocolVersion and clientCapabilities`)
  const mismatch = mismatchOf(() => checkSaid(headers, claimed, method))
  if (mismatch !== undefined) return refuse(headerMismatch, mismatch)
  if (claimed !== modernVersion) {
    const data = { supported: [modernVersion], requested: claimed }
    return refuse(unsupportedVersion, 'Unsupported protocol version', data)
  }
  const { params = {} } = message
  const missing = mismatchOf(() => checkRequired(headers, { kind: 'request', id, method, params }))
  return missing === undefined ? { kind: 'modern' } : refuse(headerMismatch, missing)
}

/** What the headers say otherwise than the body. */
function mismatchOf(check: () => void): string | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if (error instanceof ProtocolError && error.fault.kind === 'header mismatch') return error.fault.problem
    throw error
  }
}

/** Arguments of a tool that its schema wants repeated in headers. @returns what is refused with status 400 */
export function argumentMismatch(
  message: RequestMessage,
  schema: JsonSchema,
  headers: Headers,
): ResponseMessage | undefined {
  const given = message.params?.arguments
  const problem = mismatchOf(() => checkArguments(headers, schema, isObject(given) ? given : {}))
  return problem === undefined ? undefined : errorResponse(message.id, headerMismatch, problem)
}
