/**
 * JSON-RPC 2.0 messages as MCP uses them. All readers use this module: HTTP and stdio of the tool server, HTTP of the
 * bridge, and the output of the bridge's subprocess. An accepted message has an id that can be returned exactly as
 * sent, a limited nesting depth, and no name that could reach a prototype.
 */
import type { Json, JsonObject } from './json.ts'
import { hasRewrittenId, idRule, isMessageId, notUtf8, progressTokenProblem } from './message-text.ts'

export type RequestId = string | number

export type RequestMessage = {
  readonly kind: 'request'
  readonly id: RequestId
  readonly method: string
  /** The parameters; empty if the message has none. */
  readonly params: JsonObject
}
export type NotificationMessage = {
  readonly kind: 'notification'
  readonly method: string
  readonly params: JsonObject
}

/** `result` or `error`, as the sender wrote it. */
export type ResponseOutcome =
  | { readonly result: Json; readonly error?: undefined }
  | { readonly error: JsonObject; readonly result?: undefined }
/** `id` is null if the error is about a request whose id could not be read. */
export type ResponseMessage = {
  readonly kind: 'response'
  readonly id: RequestId | null
  readonly outcome: ResponseOutcome
}
export type Message = RequestMessage | NotificationMessage | ResponseMessage

export const parseError = -32_700
export const invalidRequest = -32_600
export const methodNotFound = -32_601
export const invalidParams = -32_602
export const internalError = -32_603

export type InvalidMessage = {
  readonly kind: 'invalid'
  readonly id: RequestId | undefined
  readonly code: typeof invalidRequest | typeof invalidParams
  readonly problem: string
}
export type Received = Message | InvalidMessage

export type Parsed =
  /** `problem`: details, if more is known than that the text is not JSON. */
  | { readonly kind: 'no JSON'; readonly problem?: string }
  | { readonly kind: 'one'; readonly message: Received }
  | { readonly kind: 'batch'; readonly messages: readonly Received[] }

/** The maximum nesting depth of objects and arrays. */
const maximumDepth = 64
const maximumMethodLength = 200

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The `_meta` object of a message's parameters. */
export const metaOf = (params: JsonObject): JsonObject => (isObject(params._meta) ? params._meta : {})

/** Returns the problem in the structure of a value, at any depth. */
function shapeProblem(value: unknown, depth = 0): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (depth === maximumDepth) return `objects and arrays are nested more than ${maximumDepth} deep`
  if (Array.isArray(value)) {
    for (const one of value) {
      const problem = shapeProblem(one, depth + 1)
      if (problem !== undefined) return problem
    }
    return undefined
  }
  for (const [key, one] of Object.entries(value)) {
    if (key === '__proto__') return 'the name "__proto__" is not allowed'
    const problem = shapeProblem(one, depth + 1)
    if (problem !== undefined) return problem
  }
  return undefined
}

const invalid = (problem: string, id?: RequestId, code: InvalidMessage['code'] = invalidRequest): InvalidMessage => ({
  kind: 'invalid',
  id,
  code,
  problem,
})

function responseOf({ id, result, error }: JsonObject): Received {
  if ((result === undefined) === (error === undefined))
    return invalid('a message must have a method, or else a result or an error', isMessageId(id) ? id : undefined)
  if (!isMessageId(id) && !(id === null && error !== undefined)) return invalid(`id must be ${idRule}`)
  if (result !== undefined) return { kind: 'response', id, outcome: { result } }
  return isObject(error) ? { kind: 'response', id, outcome: { error } } : invalid('error must be an object')
}

/**
 * Converts a JSON value to a message. Does not check nesting depth and names, so use parseMessages for client input.
 */
export function readMessage(value: unknown): Received {
  if (!isObject(value)) return invalid('a message must be an object')
  const { jsonrpc, id, method, params } = value
  const known = isMessageId(id) ? id : undefined
  if (jsonrpc !== '2.0') return invalid('jsonrpc must be "2.0"', known)
  if (method === undefined) return responseOf(value)
  if (typeof method !== 'string' || method === '' || method.length > maximumMethodLength)
    return invalid(`method must be a string of 1 to ${maximumMethodLength} characters`, known)
  if (id !== undefined && known === undefined) return invalid(`id must be ${idRule}`)
  if (params !== undefined && !isObject(params)) return invalid('params must be an object', known, invalidParams)
  const tokenProblem = params && progressTokenProblem(metaOf(params).progressToken)
  if (tokenProblem !== undefined) return invalid(tokenProblem, known, invalidParams)
  return known === undefined
    ? { kind: 'notification', method, params: params ?? {} }
    : { kind: 'request', id: known, method, params: params ?? {} }
}

function readFromClient(value: unknown): Received {
  const problem = shapeProblem(value)
  if (problem === undefined) return readMessage(value)
  return invalid(problem, isObject(value) && isMessageId(value.id) ? value.id : undefined)
}

/** @param text undefined if the bytes are not UTF-8 */
export function parseMessages(text: string | undefined): Parsed {
  if (text === undefined) return { kind: 'no JSON', problem: notUtf8 }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'no JSON' }
  }
  if (hasRewrittenId(text)) return { kind: 'one', message: invalid(`id must be ${idRule}`) }
  return Array.isArray(value)
    ? { kind: 'batch', messages: value.map(readFromClient) }
    : { kind: 'one', message: readFromClient(value) }
}

export function writeMessage(message: Message): JsonObject {
  if (message.kind === 'response') return { jsonrpc: '2.0', id: message.id, ...message.outcome }
  const { method, params } = message
  const id = message.kind === 'request' ? { id: message.id } : {}
  return { jsonrpc: '2.0', ...id, method, ...(Object.keys(params).length > 0 && { params }) }
}

export type RpcError = { readonly code: number; readonly message: string; readonly data?: Json }

export function errorResponse(id: RequestId | null, code: number, message: string, data?: Json): ResponseMessage {
  return { kind: 'response', id, outcome: { error: { code, message, ...(data !== undefined && { data }) } } }
}

/** `result` is already JSON text. */
export const resultText = (id: RequestId, result: string): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`

/** `id`: if the id could not be read, undefined or null, depending on the revision. */
export const errorText = (id: RequestId | null | undefined, error: RpcError): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error })

/** A notification of the server, or a request if it has an id. */
export type ServerMessage = { readonly id?: RequestId; readonly method: string; readonly params: JsonObject }

export const messageText = ({ id, method, params }: ServerMessage): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })
