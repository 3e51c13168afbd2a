/**
 * JSON-RPC 2.0 as far as one needs it who hands messages on: which of its kinds a message is, whose answer, and what it says of itself in `params._meta`. What else is in a message stays as it came.
 */
import type { Json, JsonObject } from '../mcp-protocol/json.ts'
import { idRule, isMessageId, progressTokenProblem } from '../mcp-protocol/message-text.ts'

export type Id = string | number

export type RequestMessage = {
  readonly kind: 'request'
  readonly id: Id
  readonly method: string
  readonly params: JsonObject | undefined
}
export type NotificationMessage = {
  readonly kind: 'notification'
  readonly method: string
  readonly params: JsonObject | undefined
}
/** `rest`: `result` or `error`, as they came. */
export type ResponseMessage = { readonly kind: 'response'; readonly id: Id | null; readonly rest: JsonObject }
export type Message = RequestMessage | NotificationMessage | ResponseMessage

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const longestMethod = 200

export const parseError = -32_700
export const invalidRequest = -32_600
export const invalidParams = -32_602
export const internalError = -32_603

type InvalidMessage = {
  readonly kind: 'invalid'
  readonly code: typeof invalidRequest | typeof invalidParams
  readonly problem: string
}

/** @returns what is wrong with it where it is no message */
export function readMessage(value: unknown): Message | InvalidMessage {
  const invalid = (problem: string): InvalidMessage => ({ kind: 'invalid', code: invalidRequest, problem })
  const wrongParams = (problem: string): InvalidMessage => ({ kind: 'invalid', code: invalidParams, problem })
  if (!isObject(value)) return invalid('a message is an object')
  if (value.jsonrpc !== '2.0') return invalid('jsonrpc must be "2.0"')
  const { id, method, params } = value
  if (id !== undefined && id !== null && !isMessageId(id)) return invalid(`id must be ${idRule}`)
  if (method === undefined) {
    const { result, error } = value
    if ((result === undefined) === (error === undefined))
      return invalid('a message has a method, or else a result or an error')
    if (error !== undefined && !isObject(error)) return invalid('error must be an object')
    if (id === undefined) return invalid('a response has an id')
    return { kind: 'response', id, rest: error === undefined ? { result } : { error } }
  }
  if (typeof method !== 'string' || method === '' || method.length > longestMethod)
    return invalid(`method must be a string of 1 to ${longestMethod} characters`)
  if (params !== undefined && !isObject(params)) return wrongParams('params must be an object')
  if (id === null) return invalid('id must not be null')
  const tokenProblem = progressTokenProblem(metaOf(params)?.progressToken)
  if (tokenProblem !== undefined) return wrongParams(tokenProblem)
  return id === undefined ? { kind: 'notification', method, params } : { kind: 'request', id, method, params }
}

export function writeMessage(message: Message): JsonObject {
  switch (message.kind) {
    case 'request': {
      const { id, method, params } = message
      return { jsonrpc: '2.0', id, method, ...(params && { params }) }
    }
    case 'notification': {
      const { method, params } = message
      return { jsonrpc: '2.0', method, ...(params && { params }) }
    }
    case 'response':
      return { jsonrpc: '2.0', id: message.id, ...message.rest }
  }
}

export function errorResponse(id: Id | null, code: number, message: string, data?: Json): ResponseMessage {
  return { kind: 'response', id, rest: { error: { code, message, ...(data !== undefined && { data }) } } }
}

export const protocolPrefix = 'io.modelcontextprotocol/'
/** Of the fields by which the bridge and the tool server understand each other. */
export const ownPrefix = 'espalier.dev/'

export function metaOf(params: JsonObject | undefined): JsonObject | undefined {
  const meta = params?._meta
  return isObject(meta) ? meta : undefined
}

/** `params` with `fields` in `_meta`, and without what anybody else put there under the bridge's prefix. */
export function withMeta(params: JsonObject | undefined, fields: JsonObject): JsonObject | undefined {
  const meta = metaOf(params)
  const kept = Object.entries(meta ?? {}).filter(([name]) => !name.startsWith(ownPrefix))
  const all = Object.fromEntries([...kept, ...Object.entries(fields)])
  if (Object.keys(all).length > 0) return { ...params, _meta: all }
  if (params === undefined || meta === undefined) return params
  // Some servers want `_meta` where they sent or got it, and none is hurt by an empty one.
  return { ...params, _meta: {} }
}
